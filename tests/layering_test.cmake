# cmake -DSCRATCH=<directory> -P layering_test.cmake
#
# layering.cmake accepts a good tree and names each planted offence.
cmake_minimum_required(VERSION 3.22)
set(check "${CMAKE_CURRENT_LIST_DIR}/layering.cmake")

# A good tree of a few files and a test.
function(make_tree)
  file(REMOVE_RECURSE "${SCRATCH}")
  file(WRITE "${SCRATCH}/CMakeLists.txt" "set(WEFT_LAYERS base numa context io)\n")
  file(WRITE "${SCRATCH}/base/lock.h" "#include <atomic>\n")
  file(WRITE "${SCRATCH}/base/lock.cc" "#include \"weft/base/lock.h\"\n")
  file(WRITE "${SCRATCH}/base/list.h" "#include \"weft/base/lock.h\"\n")
  file(WRITE "${SCRATCH}/numa/machine/topology.h" "#include \"weft/base/list.h\"\n#include \"weft/base/lock.h\"\n")
  file(WRITE "${SCRATCH}/numa/machine/topology.cc" "#include \"weft/numa/machine/topology.h\"\n#include <hwloc.h>\n")
  file(WRITE "${SCRATCH}/numa/plan/choice.h" "#include \"weft/numa/machine/topology.h\"\n")
  file(WRITE "${SCRATCH}/numa/plan/choice.cc" "#include \"weft/numa/plan/choice.h\"\n")
  file(WRITE "${SCRATCH}/context/stack.h" "#include \"weft/numa/machine/topology.h\"\n")
  file(WRITE "${SCRATCH}/context/slot.h" "// The former name of \"weft/io/slot.h\", for one version.\n#include \"weft/io/slot.h\"\n")
  file(WRITE "${SCRATCH}/io/slot.h" "#include \"weft/context/stack.h\"\n")
  file(WRITE "${SCRATCH}/io/asio_stream.h" "#include <boost/asio/buffer.hpp>\n")
  file(WRITE "${SCRATCH}/tests/testing/clock.h" "")
  file(WRITE "${SCRATCH}/tests/numa/machine.h" "")
  file(WRITE "${SCRATCH}/tests/context/flow.h" "")
  file(WRITE "${SCRATCH}/tests/numa/topology_test.cc"
       "#include \"weft/numa/machine/topology.h\"\n#include \"testing/clock.h\"\n#include \"numa/machine.h\"\n")
endfunction()

function(run_check result_variable output_variable)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" "-DROOT=${SCRATCH}" -P "${check}"
    RESULT_VARIABLE result
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  set(${result_variable} "${result}" PARENT_SCOPE)
  set(${output_variable} "${output}" PARENT_SCOPE)
endfunction()

function(expect_offence file text expected)
  make_tree()
  file(APPEND "${SCRATCH}/${file}" "${text}\n")
  run_check(result output)
  if(result EQUAL 0)
    message(FATAL_ERROR "not found: in ${file}: ${text}")
  endif()
  string(FIND "${output}" "${expected}" position)
  if(position EQUAL -1)
    message(FATAL_ERROR "in ${file}: ${text}: expected \"${expected}\", got: ${output}")
  endif()
endfunction()

make_tree()
run_check(result output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "a good tree was refused: ${output}")
endif()

expect_offence(base/lock.h "#include \"weft/numa/machine/topology.h\"" "numa is above base")
expect_offence(base/lock.cc "  #  include  \"weft/context/stack.h\"  // why" "context is above base")
expect_offence(base/lock.cc "#include <weft/numa/machine/topology.h>" "numa is above base")
expect_offence(tests/numa/topology_test.cc "#include \"weft/context/stack.h\"" "context is above numa")
expect_offence(tests/numa/topology_test.cc "#include \"context/flow.h\"" "context is above numa")
expect_offence(tests/numa/topology_test.cc "#include \"testing/gone.h\"" "spell it")
expect_offence(base/lock.h "#include \"weft/base/list.h\"" "include cycle (header and source are one): base/l")
# Only the source closes the ring.
expect_offence(base/lock.cc "#include \"weft/base/list.h\"" "include cycle (header and source are one): base/l")
# In a room of a layer.
expect_offence(numa/plan/choice.cc "#include \"weft/context/stack.h\"" "context is above numa")
expect_offence(numa/plan/choice.h "#include \"weft/numa/plan/gone.h\"" "weft/numa/plan/gone.h, which is not there")
expect_offence(numa/machine/topology.h "#include \"weft/numa/plan/choice.h\"" "include cycle (header and source are one): numa/")
expect_offence(numa/plan/choice.cc "#include <hwloc.h>" "may")
expect_offence(numa/plan/choice.cc "#include \"choice.h\"" "spell it \"weft/<layer>/<file>.h\"")
expect_offence(base/list.h "#include \"weft/weft.h\"" "includes all of Weft")
expect_offence(base/list.h "#include \"weft/tests/x.h\"" "tests is no layer")
expect_offence(base/list.h "#include \"weft/base/gone.h\"" "weft/base/gone.h, which is not there")
expect_offence(base/list.h "#include \"lock.h\"" "spell it \"weft/<layer>/<file>.h\"")
# A former name includes what it names, and nothing else.
expect_offence(context/stack.h "// The former name of \"weft/io/slot.h\", for one version.\n#include \"weft/io/slot.h\"" "io is above context")
expect_offence(context/old.h "// The former name of \"weft/io/slot.h\", for one version.\n#include \"weft/io/asio_stream.h\"" "io is above context")
expect_offence(context/stack.h "#include <hwloc.h>" "may")
expect_offence(numa/machine/topology.h "#include <boost/context/fiber.hpp>" "may")
expect_offence(io/slot.h "#include <gflags/gflags.h>" "may")
expect_offence(io/slot.h "#include <boost/asio/buffer.hpp>" "may")
expect_offence(io/asio_stream.h "#include <gflags/gflags.h>" "may")
message(STATUS "all planted violations were found")
