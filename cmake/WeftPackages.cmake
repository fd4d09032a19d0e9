# Debian packages of what `cmake --install` writes, by CPack.  tools/packages.sh builds and checks them.
#
#   libweft<soversion>  libweft.so.<soversion>                                          component weft_runtime
#   libweft-dev         headers, adapters, the files for CMake and pkg-config           weft_development
#   weft-tools          weft_topology, commands for gdb                                 weft_tools
#   weft-doc            documents and examples                                          weft_documents
#
# Why CPack and not debhelper: names, versions and lists of files come from version.h and the install rules, so a new header, tool or soname changes
# nothing here; debian/ would say them all again. What CPack 3.25 cannot say is Multi-Arch. A distribution that wants its own debian/ finds what it
# needs in `cmake --install --component`. The version has no Debian revision: a distribution's own 0.2.0-1 is newer than our 0.2.0.
if(NOT BUILD_SHARED_LIBS OR NOT WEFT_INSTALL)
  message(FATAL_ERROR "WEFT_PACKAGES wants BUILD_SHARED_LIBS and WEFT_INSTALL (use the preset packages)")
endif()
find_program(WEFT_GZIP gzip REQUIRED)
mark_as_advanced(WEFT_GZIP)
set(WEFT_PACKAGE_MAINTAINER "The Weft Authors <authors@weft.invalid>" CACHE STRING "Who answers for the Debian packages: name <address>")

set(soversion "${weft_VERSION_MAJOR}.${weft_VERSION_MINOR}")
set(runtime "libweft${soversion}")
set(folder "${weft_BINARY_DIR}/debian")
set(source "${weft_SOURCE_DIR}/packaging")
set(doc_folder "${CMAKE_INSTALL_DATADIR}/doc")

# Without name and time, so that the same source makes the same package.
function(weft_gzip from to)
  execute_process(COMMAND "${WEFT_GZIP}" -9nc "${from}" OUTPUT_FILE "${to}" COMMAND_ERROR_IS_FATAL ANY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${from}")
endfunction()

# SOURCE_DATE_EPOCH, if it is set.
string(TIMESTAMP WEFT_PACKAGE_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file("${source}/changelog.in" "${folder}/changelog" @ONLY)
weft_gzip("${folder}/changelog" "${folder}/changelog.gz")

function(weft_package component name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "SECTION;SUMMARY;DESCRIPTION" "DEPENDS;RECOMMENDS;SUGGESTS")
  install(FILES "${source}/copyright" "${folder}/changelog.gz" DESTINATION "${doc_folder}/${name}" COMPONENT ${component})
  string(TOUPPER ${component} upper)
  list(JOIN arg_DEPENDS ", " depends)
  list(JOIN arg_RECOMMENDS ", " recommends)
  list(JOIN arg_SUGGESTS ", " suggests)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${arg_SECTION} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_RECOMMENDS "${recommends}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SUGGESTS "${suggests}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${arg_SUMMARY}\n${arg_DESCRIPTION}" PARENT_SCOPE)
endfunction()

set(what "Weft runs many fibers on few threads: code that waits is written as if it
blocked. It has mutexes, channels, timers, cancellation, sockets, TLS, HTTP/2
and gRPC for fibers and plain threads alike.
.
")
weft_package(
  weft_runtime ${runtime}
  SECTION libs
  SUMMARY "M:N work-stealing fiber scheduler for C++ - shared library"
  DESCRIPTION "${what}This package has the library that programs are linked with."
  RECOMMENDS libdw1) # Loaded by the first dump, for stacks (observe/dump/stack_unwinder.h): shlibdeps does not see it.
weft_package(
  weft_development libweft-dev
  SECTION libdevel
  SUMMARY "M:N work-stealing fiber scheduler for C++ - development files"
  DESCRIPTION
    "${what}This package has the headers, the adapters for TLS and HTTP (static
libraries), and the files by which CMake and pkg-config find Weft."
  DEPENDS "${runtime} (= ${weft_VERSION})" libgflags-dev libnghttp2-dev libssl-dev zlib1g-dev
  SUGGESTS libboost-dev libgrpc++-dev pkg-config protobuf-compiler-grpc weft-doc weft-tools)
weft_package(
  weft_tools weft-tools
  SECTION devel
  SUMMARY "M:N work-stealing fiber scheduler for C++ - tools"
  DESCRIPTION "${what}This package has weft_topology, which shows and draws how Weft places its
threads on a machine, and commands for gdb that show fibers."
  SUGGESTS gdb)
weft_package(
  weft_documents weft-doc
  SECTION doc
  SUMMARY "M:N work-stealing fiber scheduler for C++ - documents"
  DESCRIPTION "${what}This package has the tutorial, how-to pages, the reference and examples.")

install(
  FILES "${weft_SOURCE_DIR}/README.md" "${weft_SOURCE_DIR}/CHANGELOG.md" "${weft_SOURCE_DIR}/CONTRIBUTING.md" "${weft_SOURCE_DIR}/SECURITY.md"
  DESTINATION "${doc_folder}/weft-doc"
  COMPONENT weft_documents)
install(
  DIRECTORY "${weft_SOURCE_DIR}/docs" "${weft_SOURCE_DIR}/examples" "${weft_SOURCE_DIR}/conf"
  DESTINATION "${doc_folder}/weft-doc"
  COMPONENT weft_documents)
weft_gzip("${source}/weft_topology.1" "${folder}/weft_topology.1.gz")
install(
  FILES "${folder}/weft_topology.1.gz"
  DESTINATION "${CMAKE_INSTALL_MANDIR}/man1"
  COMPONENT weft_tools)

# CPack would write maintainer scripts that call ldconfig, which Debian's policy leaves to dpkg's trigger. It does so where it finds shared libraries,
# and it looks for those of components that have SHLIBDEPS or GENERATE_SHLIBS: so dependencies of libweft.so are asked here (cpack_config.cmake.in).
file(WRITE "${folder}/triggers" "activate-noawait ldconfig\n")
file(WRITE "${folder}/shlibs" "libweft ${soversion} ${runtime} (>= ${weft_VERSION})\n")
set(CPACK_DEBIAN_WEFT_RUNTIME_PACKAGE_CONTROL_EXTRA "${folder}/triggers;${folder}/shlibs")
configure_file("${source}/cpack_config.cmake.in" "${folder}/cpack_config.cmake.in" @ONLY)
file(GENERATE OUTPUT "${folder}/cpack_config.cmake" INPUT "${folder}/cpack_config.cmake.in")
set(CPACK_PROJECT_CONFIG_FILE "${folder}/cpack_config.cmake")
set(CPACK_DEBIAN_WEFT_TOOLS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_WEFT_DOCUMENTS_PACKAGE_ARCHITECTURE all)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weft)
set(CPACK_PACKAGE_VERSION "${weft_VERSION}")
set(CPACK_PACKAGE_CONTACT "${WEFT_PACKAGE_MAINTAINER}")
set(CPACK_COMPONENTS_ALL weft_runtime weft_development weft_tools weft_documents)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SOURCE weft)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_OUTPUT_FILE_PREFIX "${weft_BINARY_DIR}/deb")
include(CPack)
