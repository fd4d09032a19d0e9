# cmake -DBUILD=<Weft's build tree> -DSANITIZE=<its WEFT_SANITIZE> -DCONSUMER= -DSCRATCH= -DGENERATOR= -DCXX_COMPILER= -DLAUNCHER=<ccache>
#       -DBUILD_TYPE= -P consumer_mode_test.cmake
#
# Installs the build tree, and builds a program with it in another mode than the library:
#   with another sanitizer, or only one of the two with a sanitizer   it does not link, and the linker's message says why
#   with the same                                                     it runs
#   with NDEBUG if the library has none, or the reverse               it runs
file(REMOVE_RECURSE "${SCRATCH}")
set(prefix "${SCRATCH}/prefix")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${prefix}" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

# Sets `said` and `status`. One folder for all: CMake looks at the compiler once.
function(build target build_type flags)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${CONSUMER}" -B "${SCRATCH}/build" -G "${GENERATOR}" "-DCMAKE_PREFIX_PATH=${prefix}"
            "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" "-DCMAKE_BUILD_TYPE=${build_type}"
            "-DCMAKE_CXX_FLAGS=${flags}"
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" --build "${SCRATCH}/build" --target ${target}
    RESULT_VARIABLE status
    OUTPUT_VARIABLE said
    ERROR_VARIABLE said)
  set(status "${status}" PARENT_SCOPE)
  set(said "${said}" PARENT_SCOPE)
endfunction()

function(run name target)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${name}: was expected to link:\n${said}")
  endif()
  execute_process(COMMAND "${SCRATCH}/build/${target}" TIMEOUT 60 COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(flags_none "")
set(flags_address "-fsanitize=address")
set(flags_thread "-fsanitize=thread")
set(symbol_none "weft_must_be_built_without_WEFT_SANITIZE_because_the_program_has_no_sanitizer")
set(symbol_address "weft_must_be_built_with_WEFT_SANITIZE_address_because_the_program_has_AddressSanitizer")
set(symbol_thread "weft_must_be_built_with_WEFT_SANITIZE_thread_because_the_program_has_ThreadSanitizer")
if(SANITIZE STREQUAL "")
  set(SANITIZE none)
endif()
foreach(mode IN ITEMS none address thread)
  build(consumer "${BUILD_TYPE}" "${flags_${mode}}")
  if(mode STREQUAL SANITIZE)
    run(${mode} consumer)
  elseif(status EQUAL 0)
    message(FATAL_ERROR "a program with sanitizer ${mode} links with a library with sanitizer ${SANITIZE}")
  elseif(NOT said MATCHES "undefined (reference to|symbol:) .?${symbol_${mode}}")
    message(FATAL_ERROR "a program with sanitizer ${mode}, a library with sanitizer ${SANITIZE}: the linker does not say why:\n${said}")
  endif()
endforeach()

# CMake's Release says -DNDEBUG, Debug does not.
if(BUILD_TYPE STREQUAL "Release")
  set(other Debug)
else()
  set(other Release)
endif()
build(locks ${other} "${flags_${SANITIZE}}")
run(ndebug locks)
