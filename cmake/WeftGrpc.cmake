# gRPC for Weft.  Used in the tree, and installed for find_package(weft COMPONENTS grpc).
#
#   weft::grpc              the adapter interop/grpc_*.h with gRPC and Protobuf, if they are there (Debian: libgrpc++-dev, libprotobuf-dev,
#                           protobuf-compiler, protobuf-compiler-grpc)
#   weft_grpc_NOT_FOUND     what is missing; empty if weft::grpc is there
#   weft_add_proto(<target> <file.proto>...)
#                           the static library <target> with the messages and services of the files, linked with weft::grpc; its headers are
#                           included as "<file>.grpc.pb.h"
#
# Targets that find_package() makes are seen in one directory and below it: include this file wherever weft::grpc is used.
set(weft_grpc_NOT_FOUND "")

# Before gRPC: its Debian package for CMake stops with an error if one of the programs is missing.
find_package(Protobuf QUIET)
find_package(OpenSSL QUIET)
find_program(WEFT_GRPC_CPP_PLUGIN grpc_cpp_plugin)
mark_as_advanced(WEFT_GRPC_CPP_PLUGIN)
if(NOT TARGET protobuf::libprotobuf)
  set(weft_grpc_NOT_FOUND "Protobuf (libprotobuf-dev) was not found")
elseif(NOT TARGET protobuf::protoc)
  set(weft_grpc_NOT_FOUND "protoc (protobuf-compiler) was not found")
elseif(NOT TARGET OpenSSL::SSL)
  set(weft_grpc_NOT_FOUND "OpenSSL (libssl-dev), which gRPC needs, was not found")
elseif(NOT WEFT_GRPC_CPP_PLUGIN)
  set(weft_grpc_NOT_FOUND "grpc_cpp_plugin (protobuf-compiler-grpc) was not found")
else()
  # Its package puts its own folder into CMAKE_MODULE_PATH, and prints what it finds even if asked QUIETly.
  set(weft_grpc_module_path "${CMAKE_MODULE_PATH}")
  find_package(gRPC CONFIG QUIET)
  set(CMAKE_MODULE_PATH "${weft_grpc_module_path}")
  unset(weft_grpc_module_path)
  if(NOT TARGET gRPC::grpc++)
    set(weft_grpc_NOT_FOUND "gRPC for C++ (libgrpc++-dev) was not found")
  endif()
endif()

if(weft_grpc_NOT_FOUND STREQUAL "" AND NOT TARGET weft::grpc)
  add_library(weft::grpc INTERFACE IMPORTED)
  target_link_libraries(weft::grpc INTERFACE weft::weft gRPC::grpc++ protobuf::libprotobuf)
endif()

function(weft_add_proto target)
  if(NOT ARGN)
    message(FATAL_ERROR "weft_add_proto(${target}): name the .proto files")
  endif()
  set(out "${CMAKE_CURRENT_BINARY_DIR}/${target}.proto")
  file(MAKE_DIRECTORY "${out}")
  set(generated "")
  foreach(proto IN LISTS ARGN)
    get_filename_component(path "${proto}" ABSOLUTE)
    get_filename_component(folder "${path}" DIRECTORY)
    get_filename_component(name "${path}" NAME_WE)
    set(outputs "${out}/${name}.pb.cc" "${out}/${name}.pb.h" "${out}/${name}.grpc.pb.cc" "${out}/${name}.grpc.pb.h")
    add_custom_command(
      OUTPUT ${outputs}
      COMMAND protobuf::protoc "--proto_path=${folder}" "--cpp_out=${out}" "--grpc_out=${out}"
              "--plugin=protoc-gen-grpc=${WEFT_GRPC_CPP_PLUGIN}" "${path}"
      DEPENDS "${path}" protobuf::protoc "${WEFT_GRPC_CPP_PLUGIN}"
      COMMENT "protoc ${name}.proto"
      VERBATIM)
    list(APPEND generated ${outputs})
  endforeach()
  add_library(${target} STATIC ${generated})
  # SYSTEM: no warnings of generated code in its users.
  target_include_directories(${target} SYSTEM PUBLIC "${out}")
  target_link_libraries(${target} PUBLIC weft::grpc)
endfunction()
