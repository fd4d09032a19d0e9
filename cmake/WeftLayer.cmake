# Helpers for the CMakeLists.txt of the layers, tests, benchmarks and examples.
#
#   weft_add_layer(<layer> SOURCES a.cc b.cc [BELOW <layers below>] [LIBS <external libraries>])
#       the static library weft_<layer>, also weft::<layer>.  BELOW and LIBS are linked publicly.  HEADERS_ONLY instead of SOURCES: no
#       library file, only its headers and what they need.
#   weft_add_adapter(<name> SOURCES a.cc b.cc LIBS <external libraries> PKG_CONFIG <their packages for pkg-config> [BELOW <adapters>])
#       the static library weft_<name>, also weft::<name>: a part of interop/ that needs other libraries, or what is above it. Not in weft::weft; a program asks for it by
#       find_package(weft COMPONENTS <name>), or by pkg-config's weft-<name>.
#   weft_compile_for_size(a.cc b.cc)
#       these sources of the folder's layer run seldom (a runtime starts or ends, a message is written, memory is trimmed): small code, not fast.
#   weft_add_test(<layer> <name> SOURCES x_test.cc... [LIBS <more>] [LABELS <labels>] [TIMEOUT <seconds>])
#       the program <layer>_<name>, linked with weft::<layer> (hence the layers below it, and nothing above) and gtest_main; the CTest test
#       <layer>.<name>.  The layer's name is a label too.  The time limit is multiplied under a sanitizer.
#       For several layers at once (tests/model, tests/stress ...): <layer> may be any word; if there is no such layer, LIBS says what to link.
#   weft_add_tests(<layer> <group> TESTS <names> [LIBS <more>] [LABELS <labels>] [TIMEOUT <seconds>])
#       for each name what weft_add_test(<layer> <name> SOURCES <name>_test.cc) makes: the target, the program in bin/, the CTest test. They share one
#       program, <layer>_tests_<group>, which is compiled as one source: most of what a test costs to compile are headers and templates that its
#       neighbours need too (five files of sync: 15 s instead of 31). Their names for helpers must differ. Apart stay files with a main(), that
#       replace operator new, or that start their own program again.
#       Labels that test.sh knows: no_asan, no_tsan (left out in that sanitizer build; say why beside it).
#   weft_run_under_policy(<layer> <name> <policy>)
#       the same program once more, as <layer>.<name>.<policy>: its fixtures take that scheduling policy (tests/testing/policy.h). Under
#       AddressSanitizer only for some layers.
#   weft_test_reads(<test> <paths of the tree, patterns of git>...)
#       what this test reads besides the files in its command line: ./test.sh changed leaves it out while these are what they were when it passed.
#       For tests that have a folder in their command line, or no program of the build folder; the others need not say it.
#   weft_add_benchmark(<layer> <name> SOURCES ... [LIBS ...])
#       the program <layer>_<name>, linked with weft::<layer> (weft::weft if there is no such layer) and Google Benchmark.
#   weft_add_example(<name> SOURCES ... [LIBS ...] [IN_DEMO] [DEMO_ARGUMENTS ...])
#       the program <name>, linked with weft::weft; built by the target weft_examples. IN_DEMO: also by weft_demo; demo.sh runs these in the order in
#       which they are added, with the arguments given (words without blanks).
#   weft_compile_options(<target>)
#       the warnings and the language level of our own code.
#   weft_find_required(<package> <Debian's package> [more arguments of find_package])
#       find_package(), and an error that says what to install.
include_guard(GLOBAL)
include(WeftInstall)

# Tests take longer by about this factor under a sanitizer, and in the emulator that runs what was cross-compiled (tools/aarch64.sh).
set(WEFT_SANITIZER_TIMEOUT_FACTOR 4)

# A macro: the caller needs the variables that find_package() sets.
macro(weft_find_required package debian_package)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    set(remedy "On Debian: apt-get install ${debian_package}, or tools/install_dependencies.sh, which installs all that is missing.")
    if("${${package}_NOT_FOUND_MESSAGE}" MATCHES "Unwind")
      set(remedy
          "glog is installed, but its CMake package asks for libunwind-dev, which Debian removes when it installs libc++-dev \
(for libunwind-14-dev).  On Debian: apt-get install libunwind-dev; that removes libc++-dev and libunwind-14-dev.")
    endif()
    message(FATAL_ERROR "Weft needs ${package}, which was not found.  ${remedy}")
  endif()
endmacro()

function(weft_apply_sanitizer)
  if(WEFT_SANITIZE STREQUAL "")
    return()
  elseif(WEFT_SANITIZE STREQUAL "address")
    set(flags -fsanitize=address,undefined -fno-sanitize-recover=undefined)
  elseif(WEFT_SANITIZE STREQUAL "thread")
    if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      # g++ 12 does not understand atomic_thread_fence here (-Wtsan), and its runtime dies at 8,128 live fibers.
      message(FATAL_ERROR "WEFT_SANITIZE=thread needs clang++ (use the preset tsan)")
    endif()
    set(flags -fsanitize=thread)
  else()
    message(FATAL_ERROR "WEFT_SANITIZE=${WEFT_SANITIZE}: expected empty, address or thread")
  endif()
  if(WEFT_BUILD_TESTS AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # cmake/sanitizer/*.supp have names of functions.
    find_program(WEFT_LLVM_SYMBOLIZER llvm-symbolizer)
    if(NOT WEFT_LLVM_SYMBOLIZER)
      message(FATAL_ERROR "WEFT_SANITIZE=${WEFT_SANITIZE}: the tests need llvm-symbolizer for suppressions to work (Debian: llvm)")
    endif()
  endif()
  add_compile_options(${flags} -fno-omit-frame-pointer)
  add_link_options(${flags})
  if(WEFT_BUILD_TESTS AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # A source that all tests link is followed by 80 links: 0.2 s of CPU each for AddressSanitizer, not 0.7.
    find_program(WEFT_LLD ld.lld)
    if(WEFT_LLD)
      add_link_options(-fuse-ld=lld)
    endif()
  endif()
endfunction()

function(weft_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  # g++ 12 still warns of a failure order that is stronger than the success order (allowed since C++17), at -O0.
  set(warnings -Wall -Wextra $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety> $<$<CXX_COMPILER_ID:GNU>:-Wno-invalid-memory-model>)
  if(WEFT_WERROR)
    list(APPEND warnings -Werror)
  endif()
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${warnings}>)
endfunction()

# The sources in the list variable that exist.  Warns of each that does not; test.sh makes that an error.
function(weft_keep_existing variable)
  set(kept "")
  foreach(source IN LISTS ${variable})
    get_filename_component(path "${source}" ABSOLUTE)
    if(EXISTS "${path}")
      list(APPEND kept "${source}")
    else()
      message(AUTHOR_WARNING "${path} is not there")
    endif()
  endforeach()
  set(${variable} "${kept}" PARENT_SCOPE)
endfunction()

# A function whose frame is larger than a page touches each page of it, so it cannot jump over the guard below a fiber's stack.  For our code and
# that of users of weft::weft.
set(WEFT_STACK_CLASH_PROTECTION "")
foreach(language IN ITEMS C CXX)
  if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    list(APPEND WEFT_STACK_CLASH_PROTECTION $<$<COMPILE_LANG_AND_ID:${language},GNU,Clang>:-fstack-clash-protection>)
    continue()
  endif()
  # Without the parameter g++ takes guards of 64 KiB for granted there, and touches nothing of smaller frames: 2^12 bytes. clang has had the option
  # since version 18; older ones warn that it is unused.
  list(APPEND WEFT_STACK_CLASH_PROTECTION $<$<COMPILE_LANG_AND_ID:${language},GNU>:-fstack-clash-protection>
       $<$<COMPILE_LANG_AND_ID:${language},GNU>:--param=stack-clash-protection-guard-size=12>
       $<$<AND:$<COMPILE_LANG_AND_ID:${language},Clang>,$<VERSION_GREATER_EQUAL:$<${language}_COMPILER_VERSION>,18>>:-fstack-clash-protection>)
endforeach()

function(weft_add_layer layer)
  cmake_parse_arguments(PARSE_ARGV 1 arg "HEADERS_ONLY" "" "SOURCES;BELOW;LIBS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "weft_add_layer(${layer}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  foreach(below IN LISTS arg_BELOW)
    if(NOT TARGET weft_${below})
      message(AUTHOR_WARNING "the layer ${layer} is left out: it needs ${below}, which is not there")
      return()
    endif()
  endforeach()

  if(arg_HEADERS_ONLY)
    weft_add_headers_only_layer(${layer} "${arg_BELOW}" "${arg_LIBS}")
    return()
  endif()
  weft_keep_existing(arg_SOURCES)
  if(NOT arg_SOURCES)
    return()
  endif()
  add_library(weft_${layer} STATIC ${arg_SOURCES})
  add_library(weft::${layer} ALIAS weft_${layer})
  # Position independent always, because a static library may go into a user's shared one.  -fno-semantic-interposition (else no function that is
  # not inline could be inlined) and the linker, which makes calls over the linkage table and loads of addresses direct, take back the cost in
  # programs.
  set_target_properties(weft_${layer} PROPERTIES EXPORT_NAME ${layer} POSITION_INDEPENDENT_CODE ON)
  target_compile_options(weft_${layer} PRIVATE -fno-semantic-interposition)
  # So that a program linked with --gc-sections leaves out the functions that it does not call.
  target_compile_options(weft_${layer} PRIVATE -ffunction-sections -fdata-sections)
  weft_compile_options(weft_${layer})
  # initial-exec: one load instead of a call to __tls_get_addr for each thread_local access in a shared library; in a program the linker makes it
  # local-exec.  The price: a shared library that contains Weft and is loaded by dlopen() takes its thread_locals from glibc's static surplus (about
  # 1.6 KiB for the process).  Ours are a few pointers, so that works; do not add large ones.
  target_compile_options(weft_${layer} PRIVATE -ftls-model=initial-exec ${WEFT_STACK_CLASH_PROTECTION})
  target_include_directories(
    weft_${layer} PUBLIC $<BUILD_INTERFACE:${weft_BINARY_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  foreach(below IN LISTS arg_BELOW)
    target_link_libraries(weft_${layer} PUBLIC weft_${below})
  endforeach()
  target_link_libraries(weft_${layer} PUBLIC ${arg_LIBS})
  set_property(GLOBAL APPEND PROPERTY WEFT_BUILT_LAYERS ${layer})
endfunction()

function(weft_compile_for_size)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-Os>")
endfunction()

function(weft_add_headers_only_layer layer below libs)
  add_library(weft_${layer} INTERFACE)
  add_library(weft::${layer} ALIAS weft_${layer})
  set_target_properties(weft_${layer} PROPERTIES EXPORT_NAME ${layer})
  target_compile_features(weft_${layer} INTERFACE cxx_std_20)
  target_include_directories(
    weft_${layer} INTERFACE $<BUILD_INTERFACE:${weft_BINARY_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  if(BUILD_SHARED_LIBS)
    # Not also the static ones: that would be two copies.  weft_add_umbrella() makes it.
    target_link_libraries(weft_${layer} INTERFACE weft_weft)
    set(below "")
  endif()
  foreach(one IN LISTS below)
    target_link_libraries(weft_${layer} INTERFACE weft_${one})
  endforeach()
  target_link_libraries(weft_${layer} INTERFACE ${libs})
  set_property(GLOBAL APPEND PROPERTY WEFT_BUILT_LAYERS ${layer})
endfunction()

function(weft_add_adapter name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;BELOW;LIBS;PKG_CONFIG")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "weft_add_adapter(${name}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_library(weft_${name} STATIC ${arg_SOURCES})
  add_library(weft::${name} ALIAS weft_${name})
  set_target_properties(weft_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_compile_options(weft_${name} PRIVATE -ffunction-sections -fdata-sections ${WEFT_STACK_CLASH_PROTECTION})
  weft_compile_options(weft_${name})
  target_link_libraries(weft_${name} PUBLIC weft_weft)
  foreach(below IN LISTS arg_BELOW)
    target_link_libraries(weft_${name} PUBLIC weft_${below})
  endforeach()
  target_link_libraries(weft_${name} PUBLIC ${arg_LIBS})
  if(WEFT_INSTALL)
    weft_install_adapter(${name} "${arg_PKG_CONFIG}")
  endif()
endfunction()

# weft::weft: all existing layers.  weft_layers: always the static libraries, for programs of the tree that use what a shared one hides.
function(weft_add_umbrella)
  get_property(layers GLOBAL PROPERTY WEFT_BUILT_LAYERS)
  add_library(weft_layers INTERFACE)
  target_compile_options(weft_layers INTERFACE ${WEFT_STACK_CLASH_PROTECTION})
  foreach(layer IN LISTS layers)
    get_target_property(type weft_${layer} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      target_link_libraries(weft_layers INTERFACE weft_${layer})
    endif()
  endforeach()
  if(BUILD_SHARED_LIBS)
    weft_add_shared_library(weft_weft)
  else()
    add_library(weft_weft INTERFACE)
    foreach(layer IN LISTS layers)
      target_link_libraries(weft_weft INTERFACE weft_${layer})
    endforeach()
  endif()
  add_library(weft::weft ALIAS weft_weft)
  set_target_properties(weft_weft PROPERTIES EXPORT_NAME weft)
  target_compile_options(weft_weft INTERFACE ${WEFT_STACK_CLASH_PROTECTION})
endfunction()

# All layers as one shared library, libweft.so, from the objects of the static ones: weft::weft with BUILD_SHARED_LIBS=ON. Tests of a layer link the
# static libraries either way: they use what the shared one hides (cmake/weft.map).
function(weft_add_shared_library target)
  weft_find_required(gflags libgflags-dev)
  weft_find_required(Hwloc libhwloc-dev)
  set(glog "")
  if(WEFT_WITH_GLOG)
    weft_find_required(glog libgoogle-glog-dev)
    set(glog $<TARGET_FILE:glog::glog>)
  endif()
  set(Boost_USE_STATIC_LIBS ON)
  weft_find_required(Boost libboost-context1.81-dev 1.81 COMPONENTS context)
  add_library(${target} SHARED)
  get_property(layers GLOBAL PROPERTY WEFT_BUILT_LAYERS)
  foreach(layer IN LISTS layers)
    get_target_property(type weft_${layer} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:weft_${layer}>)
    endif()
  endforeach()
  # The ABI may change with the minor version.
  set_target_properties(
    ${target}
    PROPERTIES OUTPUT_NAME weft
               VERSION ${PROJECT_VERSION}
               SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
               LINKER_LANGUAGE CXX
               LINK_DEPENDS "${weft_SOURCE_DIR}/cmake/weft.map")
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${weft_BINARY_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  # Files, not targets: CMake's package would want the targets of each program that links with libweft.so.
  target_link_libraries(${target} PUBLIC gflags Threads::Threads PRIVATE ${glog} $<TARGET_FILE:Hwloc::hwloc> $<TARGET_FILE:Boost::context>)
  # Threads that have used it end in it: it is never unloaded.
  target_link_options(${target} PRIVATE "LINKER:-z,nodelete")
  # Calls inside of the library are direct.
  target_link_options(${target} PRIVATE "LINKER:--version-script=${weft_SOURCE_DIR}/cmake/weft.map,-Bsymbolic-functions")
  if(WEFT_SANITIZE STREQUAL "")
    # A missing symbol is an error here, not in each program.  (A sanitizer's runtime is in the program.)
    target_link_options(${target} PRIVATE "LINKER:-z,defs")
  endif()
endfunction()

# The layer was left out, with all its tests.
macro(weft_return_if_left_out layer)
  if("${layer}" IN_LIST WEFT_LAYERS AND NOT TARGET "weft_${layer}")
    return()
  endif()
endmacro()

# The program `target`, in bin/, of the layer's tests in `sources`.
function(weft_add_test_program target layer main sources libs)
  weft_find_required(GTest libgtest-dev)
  add_executable(${target} ${sources})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${weft_BINARY_DIR}/bin")
  weft_compile_options(${target})
  if(TARGET weft_${layer})
    target_link_libraries(${target} PRIVATE weft_${layer})
  else()
    target_include_directories(${target} PRIVATE "${weft_BINARY_DIR}/include")
  endif()
  target_link_libraries(${target} PRIVATE ${libs} ${main} GTest::gtest Threads::Threads)
  # Files that tests share: #include "testing/manual_clock.h".
  target_include_directories(${target} PRIVATE "${weft_SOURCE_DIR}/tests")
  # The library is optimised. A test's own code is not: it would run by at most a tenth faster, and compile two to four times as long.
  if(NOT WEFT_SANITIZE STREQUAL "" OR WEFT_TEST_SCOPE STREQUAL "user")
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

function(weft_add_test layer name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "TIMEOUT" "SOURCES;LIBS;LABELS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "weft_add_test(${layer} ${name}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  weft_return_if_left_out(${layer})
  weft_keep_existing(arg_SOURCES)
  if(NOT arg_SOURCES)
    return()
  endif()
  weft_add_test_program(${layer}_${name} ${layer} GTest::gtest_main "${arg_SOURCES}" "${arg_LIBS}")
  add_test(NAME ${layer}.${name} COMMAND ${layer}_${name})
  weft_set_test_properties(${layer}.${name} TIMEOUT "${arg_TIMEOUT}" LABELS ${layer} ${arg_LABELS})
endfunction()

function(weft_add_tests layer group)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "TIMEOUT" "TESTS;LIBS;LABELS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "weft_add_tests(${layer} ${group}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  weft_return_if_left_out(${layer})
  set(program ${layer}_tests_${group})
  set(sources ${arg_TESTS})
  list(TRANSFORM sources APPEND _test.cc)
  weft_add_test_program(${program} ${layer} weft_test_group_main "${sources}" "${arg_LIBS}")
  # One source, whatever their number.
  set_target_properties(${program} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE BATCH UNITY_BUILD_BATCH_SIZE 0)
  file(MAKE_DIRECTORY "${weft_BINARY_DIR}/bin")
  foreach(name IN LISTS arg_TESTS)
    # group_main.cc goes by this name.
    file(CREATE_LINK ${program} "${weft_BINARY_DIR}/bin/${layer}_${name}" SYMBOLIC)
    add_custom_target(${layer}_${name} DEPENDS ${program})
    add_test(NAME ${layer}.${name} COMMAND "${weft_BINARY_DIR}/bin/${layer}_${name}")
    weft_set_test_properties(${layer}.${name} TIMEOUT "${arg_TIMEOUT}" LABELS ${layer} ${arg_LABELS})
  endforeach()
endfunction()

# Not under AddressSanitizer, but for the tests of the scheduler, of primitives and fibers, and the stress tests: what the order of fibers decides are
# races, and ThreadSanitizer runs all.
function(weft_run_under_policy layer name policy)
  if(WEFT_SANITIZE STREQUAL "address" AND NOT layer MATCHES "^(scheduling_group|sync|fiber|stress)$")
    return()
  endif()
  weft_run_again(${layer} ${name} ${policy} policy_${policy} "WEFT_TEST_POLICY=${policy}")
endfunction()

# The test <layer>.<name> once more, as <layer>.<name>.<suffix>, with one more label and variable.
function(weft_run_again layer name suffix label environment)
  if(NOT TEST ${layer}.${name})
    return()  # Left out.
  endif()
  set(test ${layer}.${name}.${suffix})
  add_test(NAME ${test} COMMAND "${weft_BINARY_DIR}/bin/${layer}_${name}")
  get_test_property(${layer}.${name} LABELS labels)
  weft_set_test_properties(${test} LABELS ${labels} ${label})
  get_test_property(${layer}.${name} TIMEOUT timeout)
  set_tests_properties(${test} PROPERTIES TIMEOUT ${timeout})
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT "${environment}")
endfunction()

# How many CPUs these tests, and what weft_run_again() made of them, use: 1 or more.
function(weft_tests_use_cpus cpus)
  math(EXPR processors "6 * ${cpus}")
  foreach(test IN LISTS ARGN)
    foreach(run IN ITEMS "${test}" "${test}.v2")
      if(TEST ${run})
        set_tests_properties(${run} PROPERTIES PROCESSORS ${processors})
      endif()
    endforeach()
  endforeach()
endfunction()

function(weft_test_reads test)
  if(TEST ${test})
    list(JOIN ARGN ":" paths)
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT "WEFT_TEST_READS=${paths}")
  endif()
endfunction()

set(WEFT_TESTS_OF_MANY_FIBERS scheduling_group.scheduling_group stress.overflow timer.timer_worker)

# The environment and the time limit of all our tests.  For tests made by add_test() directly.
function(weft_set_test_properties test)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "LABELS")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(NOT WEFT_SANITIZE STREQUAL "" OR CMAKE_CROSSCOMPILING)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * ${WEFT_SANITIZER_TIMEOUT_FACTOR}")
  endif()
  # test.sh runs six at once for each CPU. Most tests wait: the median uses a tenth of a CPU. Explorers of models compute, and three on two CPUs leave
  # none idle; figures want all CPUs of a small machine for themselves, as do emulated machines.
  set(processors 1)
  if("model" IN_LIST arg_LABELS OR "stress" IN_LIST arg_LABELS OR "matrix" IN_LIST arg_LABELS)
    set(processors 4)
  elseif("bench" IN_LIST arg_LABELS OR "guest" IN_LIST arg_LABELS)
    set(processors 12)
  endif()
  set(suppressions "${weft_SOURCE_DIR}/cmake/sanitizer")
  # A fake stack finds what is used after its function has returned. Each fiber maps and unmaps one of its own: tests that start many fibers take
  # up to eight times as long. The others run with fake stacks under one policy, and without, as programs do by default, under the other.
  set(fake_stacks 1)
  if("policy_v2" IN_LIST arg_LABELS OR "${test}" IN_LIST WEFT_TESTS_OF_MANY_FIBERS)
    set(fake_stacks 0)
  endif()
  # atexit_sleep_ms: a process that exits while threads run goes on for so long, to see what they do then. The default, a second, would cost one for
  # each program that a test runs.
  set_tests_properties(
    ${test}
    PROPERTIES
      TIMEOUT ${arg_TIMEOUT}
      PROCESSORS ${processors}
      LABELS "${arg_LABELS}"
      ENVIRONMENT
      "ASAN_OPTIONS=detect_stack_use_after_return=${fake_stacks}:check_initialization_order=1:strict_string_checks=1:detect_leaks=1;LSAN_OPTIONS=suppressions=${suppressions}/lsan.supp:print_suppressions=0;UBSAN_OPTIONS=print_stacktrace=1;TSAN_OPTIONS=halt_on_error=1:atexit_sleep_ms=100:second_deadlock_stack=1:history_size=4:suppressions=${suppressions}/tsan.supp"
  )
endfunction()

function(weft_add_benchmark layer name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;LIBS")
  if(layer IN_LIST WEFT_LAYERS AND NOT TARGET weft_${layer})
    return()  # The layer was left out.
  endif()
  weft_keep_existing(arg_SOURCES)
  if(NOT arg_SOURCES)
    return()
  endif()
  weft_find_required(benchmark libbenchmark-dev)
  set(target ${layer}_${name})
  add_executable(${target} ${arg_SOURCES})
  weft_compile_options(${target})
  target_link_libraries(${target} PRIVATE weft_layers ${arg_LIBS} benchmark::benchmark benchmark::benchmark_main Threads::Threads)
endfunction()

function(weft_add_example name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "IN_DEMO" "" "SOURCES;LIBS;DEMO_ARGUMENTS")
  weft_keep_existing(arg_SOURCES)
  if(NOT arg_SOURCES)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  weft_compile_options(${name})
  target_link_libraries(${name} PRIVATE weft_weft ${arg_LIBS})
  target_link_options(${name} PRIVATE LINKER:--gc-sections)
  if(NOT TARGET weft_examples)
    add_custom_target(weft_examples)
    add_custom_target(weft_demo)
  endif()
  add_dependencies(weft_examples ${name})
  if(NOT arg_IN_DEMO)
    return()
  endif()
  add_dependencies(weft_demo ${name})
  # demo.sh reads this list.
  list(JOIN arg_DEMO_ARGUMENTS " " arguments)
  string(STRIP "${name} ${arguments}" command)
  set_property(GLOBAL APPEND PROPERTY WEFT_DEMO "${command}")
  get_property(commands GLOBAL PROPERTY WEFT_DEMO)
  list(JOIN commands "\n" text)
  file(WRITE "${weft_BINARY_DIR}/demo.list" "${text}\n")
endfunction()
