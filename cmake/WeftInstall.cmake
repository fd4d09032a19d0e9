# What `cmake --install` writes, and how other projects find it there.
#
#   weft_install()
#       the layers and their headers; for CMake the package weft (weft-config.cmake.in); for pkg-config weft, and weft-grpc, which is headers only;
#       the script for gdb.
#   weft_install_adapter(<name> <packages for pkg-config>)
#       the library of weft_add_adapter(), and weft-<name> for pkg-config.
#
# The files for pkg-config are made in <build>/pkgconfig, weft.pc in both of its forms, for static layers and for libweft.so:
# tests/consumer_test.cmake tries both. They say Requires and Libs, not Requires.private and Libs.private, of all that a static library of ours needs:
# pkg-config leaves the private ones out unless it is told --static, which asks for static libraries of the others, too. (There are none of libudev,
# which hwloc needs.) libweft.so names what it needs itself; only gflags is for its users, who may declare our flags.
#
# Components: weft_runtime (libweft.so.<version>), weft_development, weft_tools (tools/CMakeLists.txt); with WEFT_PACKAGES
# also weft_documents (WeftPackages.cmake, which makes a Debian package of each).
include_guard(GLOBAL)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# <build>/pkgconfig/<file>
function(weft_make_pkg_config file description requires libs)
  get_filename_component(WEFT_PC_NAME "${file}" NAME_WE)
  set(WEFT_PC_DESCRIPTION "${description}")
  list(JOIN requires ", " WEFT_PC_REQUIRES)
  set(WEFT_PC_LIBS "${libs}")
  # Relative to the prefix, so that the installed tree may be moved.
  file(RELATIVE_PATH WEFT_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  configure_file("${weft_SOURCE_DIR}/cmake/weft.pc.in" "${weft_BINARY_DIR}/pkgconfig/${file}" @ONLY)
endfunction()

function(weft_install_adapter name pkg_config_packages)
  install(
    TARGETS weft_${name}
    EXPORT weft-${name}-targets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT weft_development)
  install(
    EXPORT weft-${name}-targets
    NAMESPACE weft::
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/weft"
    COMPONENT weft_development)
  weft_make_pkg_config(weft-${name}.pc "Weft's adapter ${name}" "weft = ${weft_VERSION};${pkg_config_packages}" "-lweft_${name}")
  install(
    FILES "${weft_BINARY_DIR}/pkgconfig/weft-${name}.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
    COMPONENT weft_development)
endfunction()

function(weft_install)
  get_property(layers GLOBAL PROPERTY WEFT_BUILT_LAYERS)
  set(targets weft_weft)
  # Users come before what they use, as the linker wants static libraries.
  set(libs "-l:libboost_context.a -pthread")
  foreach(layer IN LISTS layers)
    get_target_property(type weft_${layer} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      string(PREPEND libs "-lweft_${layer} ")
    endif()
    if(NOT BUILD_SHARED_LIBS OR NOT type STREQUAL "STATIC_LIBRARY")
      list(APPEND targets weft_${layer})
    endif()
    install(
      DIRECTORY "${weft_SOURCE_DIR}/${layer}/"
      DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/weft/${layer}"
      COMPONENT weft_development
      FILES_MATCHING
      PATTERN "*.h")
  endforeach()
  install(
    FILES "${weft_SOURCE_DIR}/weft.h" "${weft_SOURCE_DIR}/version.h"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/weft"
    COMPONENT weft_development)
  # scheduling_group/CMakeLists.txt tells gdb where it is.
  install(
    FILES "${weft_SOURCE_DIR}/tools/gdb/weft_gdb.py"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/gdb/auto-load"
    COMPONENT weft_tools)
  install(
    TARGETS ${targets}
    EXPORT weft-targets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT weft_development
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
            COMPONENT weft_runtime
            NAMELINK_COMPONENT weft_development)
  set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/weft")
  install(
    EXPORT weft-targets
    NAMESPACE weft::
    DESTINATION "${package_dir}"
    COMPONENT weft_development)
  set(WEFT_BUILT_LAYERS "${layers}")
  configure_package_config_file("${weft_SOURCE_DIR}/cmake/weft-config.cmake.in" "${weft_BINARY_DIR}/weft-config.cmake"
                                INSTALL_DESTINATION "${package_dir}")
  write_basic_package_version_file("${weft_BINARY_DIR}/weft-config-version.cmake" VERSION "${weft_VERSION}" COMPATIBILITY SameMinorVersion)
  install(
    FILES "${weft_BINARY_DIR}/weft-config.cmake" "${weft_BINARY_DIR}/weft-config-version.cmake"
          "${weft_SOURCE_DIR}/cmake/FindHwloc.cmake" "${weft_SOURCE_DIR}/cmake/FindNghttp2.cmake"
          "${weft_SOURCE_DIR}/cmake/WeftGrpc.cmake"
    DESTINATION "${package_dir}"
    COMPONENT weft_development)

  set(description "M:N work-stealing fibers for C++20")
  set(requires gflags hwloc)
  if(WEFT_WITH_GLOG)
    list(PREPEND requires libglog)
  endif()
  # What observe/CMakeLists.txt tells users of CMake's package.
  weft_make_pkg_config(static/weft.pc "${description}" "${requires}" "-Wl,-u,weft_observe_dumps ${libs}")
  weft_make_pkg_config(shared/weft.pc "${description}" "gflags" "-lweft -pthread")
  weft_make_pkg_config(weft-grpc.pc "gRPC's library on Weft's fibers" "weft = ${weft_VERSION};grpc++;protobuf" "")
  set(form static)
  if(BUILD_SHARED_LIBS)
    set(form shared)
  endif()
  install(
    FILES "${weft_BINARY_DIR}/pkgconfig/${form}/weft.pc" "${weft_BINARY_DIR}/pkgconfig/weft-grpc.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
    COMPONENT weft_development)
endfunction()
