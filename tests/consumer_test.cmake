# cmake -DBUILD=<Weft's build tree> -DCONSUMER=<project> -DSCRATCH=<directory> -DGENERATOR= -DCXX_COMPILER= -DBUILD_TYPE= -DCOMPONENTS=tls,http2,grpc
#       -DLAUNCHER=<ccache> [-DSHARED_LIBRARY=<libweft.so>] -P consumer_test.cmake
#
# Installs the build tree into a scratch directory, then configures, builds and runs a project that finds it there with these components, which the
# build tree has; and programs that find it by pkg-config.
string(REPLACE "," ";" COMPONENTS "${COMPONENTS}")
file(REMOVE_RECURSE "${SCRATCH}")
set(prefix "${SCRATCH}/prefix")
set(run COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)

execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${prefix}" OUTPUT_QUIET ${run})

if(NOT EXISTS "${prefix}/share/gdb/auto-load/weft_gdb.py")
  message(FATAL_ERROR "the script for gdb is not installed")
endif()
# Headers are where the documentation says, and nothing but headers.
foreach(header weft.h version.h base/log_sink.h base/report/check.h fiber/fiber.h sync/fiber_mutex.h timer/fiber_timer.h
               interop/grpc_server.h interop/use_fiber.h interop/coroutine.h interop/tls_stream.h
               interop/http2_server.h interop/hook.h http/server.h)
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
          "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}"
          "-DWEFT_COMPONENTS=${COMPONENTS}" -DWEFT_CHECK_COMPONENTS=ON ${run})
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${SCRATCH}/build" ${run})
execute_process(COMMAND "${SCRATCH}/build/consumer" TIMEOUT 60 ${run})
foreach(component IN LISTS COMPONENTS)
  execute_process(COMMAND "${SCRATCH}/build/${component}_consumer" TIMEOUT 60 ${run})
endforeach()

# A project that has targets of its own called test, format ...
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${CONSUMER}/embedded" -B "${SCRATCH}/embedding" -G "${GENERATOR}" "-DCMAKE_PREFIX_PATH=${prefix}"
          "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" -DHOW=find_package ${run})
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${SCRATCH}/embedding" --target small test format ${run})
execute_process(COMMAND "${SCRATCH}/embedding/small" TIMEOUT 60 ${run})

# The same by pkg-config: each program is compiled once, and linked with what is installed and with libweft.so.
find_program(PKG_CONFIG pkg-config)
if(NOT PKG_CONFIG)
  message(STATUS "pkg-config is not there: its files are not tested")
  return()
endif()
file(GLOB_RECURSE installed_pc "${prefix}/*/weft.pc")
get_filename_component(pc "${installed_pc}" DIRECTORY)
set(forms "${pc}")
if(SHARED_LIBRARY)
  # As if it were installed, with the adapters.
  file(RELATIVE_PATH pc_in_prefix "${prefix}" "${pc}")
  set(shared_pc "${SCRATCH}/shared/${pc_in_prefix}")
  file(COPY "${pc}/" DESTINATION "${shared_pc}" PATTERN weft.pc EXCLUDE)
  file(COPY "${BUILD}/pkgconfig/shared/weft.pc" DESTINATION "${shared_pc}")
  file(CREATE_LINK "${prefix}/include" "${SCRATCH}/shared/include" SYMBOLIC)
  file(GLOB libraries "${pc}/../libweft_tls.a" "${pc}/../libweft_http2.a"
       "${pc}/../libweft_http.a"
       "${pc}/../libweft_hook_fibers.a" "${pc}/../libweft_hook.so")
  foreach(library IN LISTS libraries ITEMS "${SHARED_LIBRARY}")
    get_filename_component(name "${library}" NAME)
    string(REGEX REPLACE "[.]so[.].*" ".so" name "${name}")
    file(CREATE_LINK "${library}" "${shared_pc}/../${name}" SYMBOLIC)
  endforeach()
  list(APPEND forms "${shared_pc}")
  get_filename_component(library_path "${SHARED_LIBRARY}" DIRECTORY)
endif()
# libweft_hook.so is shared in any case.
set(ENV{LD_LIBRARY_PATH} "${pc}/..:${library_path}")

# Flags for `variable`, from the packages in the folder `pc`.
function(ask_pkg_config variable pc)
  set(ENV{PKG_CONFIG_PATH} "${pc}")
  execute_process(COMMAND "${PKG_CONFIG}" ${ARGN} OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE ${run})
  separate_arguments(flags UNIX_COMMAND "${flags}")
  set(${variable} "${flags}" PARENT_SCOPE)
endfunction()

set(packages weft)
foreach(component IN LISTS COMPONENTS)
  list(APPEND packages weft-${component})
endforeach()
foreach(package IN LISTS packages)
  ask_pkg_config(cflags "${pc}" --cflags ${package})
  set(object "${SCRATCH}/${package}.o")
  execute_process(COMMAND ${LAUNCHER} "${CXX_COMPILER}" -std=c++20 -c "${CONSUMER}/pkg_config/${package}.cc" ${cflags} -o "${object}" ${run})
  foreach(form IN LISTS forms)
    ask_pkg_config(libs "${form}" --libs ${package})
    execute_process(COMMAND "${CXX_COMPILER}" "${object}" ${libs} -o "${SCRATCH}/${package}" ${run})
    execute_process(COMMAND "${SCRATCH}/${package}" TIMEOUT 60 ${run})
  endforeach()
endforeach()
# Several at once: each library stands before what it uses.
ask_pkg_config(libs "${pc}" --libs ${packages})
execute_process(COMMAND "${CXX_COMPILER}" "${object}" ${libs} -o "${SCRATCH}/all_packages" ${run})
