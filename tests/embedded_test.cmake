# cmake -DWEFT=<source tree> -DPROJECT=<tests/consumer/embedded> -DSCRATCH= -DGENERATOR= -DCXX_COMPILER= -DLAUNCHER=<ccache> -P embedded_test.cmake
#
# A project takes Weft in by add_subdirectory() and by FetchContent. It checks itself what Weft leaves alone; here it is built, run and installed.
# (By find_package(): consumer_test.cmake.)  And once without glog.
file(REMOVE_RECURSE "${SCRATCH}")
set(run COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)

foreach(how IN ITEMS add_subdirectory FetchContent)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${PROJECT}" -B "${SCRATCH}/${how}" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
            "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" "-DWEFT=${WEFT}" "-DHOW=${how}" -DCMAKE_DISABLE_FIND_PACKAGE_Protobuf=ON
    OUTPUT_QUIET ${run})
  file(STRINGS "${SCRATCH}/${how}/CMakeCache.txt" leaked REGEX "^(BUILD_TESTING|CMAKE_BUILD_TYPE:STRING=.)")
  if(leaked)
    message(FATAL_ERROR "Weft has written into the project's cache: ${leaked}")
  endif()
endforeach()

set(build "${SCRATCH}/add_subdirectory")
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${build}" --target small test format ${run})
execute_process(COMMAND "${build}/small" TIMEOUT 60 ${run})
# Lines go to stderr, in glog's format.
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${PROJECT}" -B "${SCRATCH}/without_glog" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
          "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" "-DWEFT=${WEFT}" -DHOW=add_subdirectory -DCMAKE_DISABLE_FIND_PACKAGE_Protobuf=ON
          -DWEFT_WITH_GLOG=OFF -DCMAKE_DISABLE_FIND_PACKAGE_glog=ON OUTPUT_QUIET ${run})
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${SCRATCH}/without_glog" --target small ${run})
execute_process(COMMAND "${SCRATCH}/without_glog/small" TIMEOUT 60 ${run})
execute_process(
  COMMAND "${SCRATCH}/without_glog/small" log
  TIMEOUT 60
  RESULT_VARIABLE status
  ERROR_VARIABLE said)
if(status STREQUAL "0" OR NOT said MATCHES "^W20[^\n]* main[.]cc:[0-9]+\\] a line\nF20[^\n]* main[.]cc:[0-9]+\\] the last line \\(in main\\)\n$")
  message(FATAL_ERROR "without glog: status ${status}, said:\n${said}")
endif()
file(STRINGS "${SCRATCH}/without_glog/small" names REGEX "libglog")
if(names)
  message(FATAL_ERROR "without glog: the program needs ${names}")
endif()
file(STRINGS "${build}/small" names REGEX "libglog")
if(NOT names)
  message(FATAL_ERROR "the program with glog does not name it: the test above shows nothing")
endif()
# What add_subdirectory(... EXCLUDE_FROM_ALL) leaves out is not installed in any case.
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${SCRATCH}/FetchContent" --prefix "${SCRATCH}/prefix" ${run})
file(GLOB_RECURSE installed "${SCRATCH}/prefix/*")
if(installed)
  message(FATAL_ERROR "Weft is installed, though nobody has asked for it: ${installed}")
endif()
