# cmake -DBUILD=<Weft's build tree> -DCONSUMER=<project> -DSCRATCH=<directory> -DGENERATOR= -DCXX_COMPILER= -DBUILD_TYPE= -DCOMPONENTS=tls,http2,grpc
#       -P consumer_test.cmake
#
# Installs the build tree into a scratch directory, then configures, builds and runs a project that finds it there with these components, which the
# build tree has.
string(REPLACE "," ";" COMPONENTS "${COMPONENTS}")
file(REMOVE_RECURSE "${SCRATCH}")
set(prefix "${SCRATCH}/prefix")
set(run COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)

execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${prefix}" OUTPUT_QUIET ${run})

# Headers are where the documentation says, and nothing but headers.
foreach(header weft.h version.h base/log_sink.h base/report/check.h fiber/fiber.h sync/fiber_mutex.h timer/fiber_timer.h
               interop/grpc_server.h interop/use_fiber.h interop/coroutine.h interop/tls_stream.h
               interop/http2_server.h)
  if(NOT EXISTS "${prefix}/include/weft/${header}")
    message(FATAL_ERROR "weft/${header} is not installed")
  endif()
endforeach()
file(GLOB_RECURSE installed RELATIVE "${prefix}/include" "${prefix}/include/*")
foreach(file IN LISTS installed)
  if(NOT file MATCHES "\\.h$")
    message(FATAL_ERROR "${file} is installed, but is no header")
  endif()
endforeach()

execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${CONSUMER}" -B "${SCRATCH}/build" -G "${GENERATOR}" "-DCMAKE_PREFIX_PATH=${prefix}"
          "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}" "-DWEFT_COMPONENTS=${COMPONENTS}"
          -DWEFT_CHECK_COMPONENTS=ON ${run})
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${SCRATCH}/build" ${run})
execute_process(COMMAND "${SCRATCH}/build/consumer" TIMEOUT 60 ${run})
foreach(component IN LISTS COMPONENTS)
  execute_process(COMMAND "${SCRATCH}/build/${component}_consumer" TIMEOUT 60 ${run})
endforeach()
