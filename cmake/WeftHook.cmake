# libweft_hook.so, which parks fibers in blocking calls (interop/hook.h), and Weft's side of it.
#
#   weft_add_hook(CALLS <sources> FIBERS <sources>)
#       weft_hook_calls           libweft_hook.so: functions of the C library by the same names. It uses nothing of Weft.
#       weft_hook_fibers          libweft_hook_fibers.a: attaches Weft to it.
#       weft::hook                for programs: both.
#       weft::hook_preloadable    for programs before which libweft_hook.so may be loaded: the latter.
include_guard(GLOBAL)

function(weft_add_hook)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "CALLS;FIBERS")
  add_library(weft_hook_calls SHARED ${arg_CALLS})
  # No C++ library: it is loaded before any program.
  set_target_properties(
    weft_hook_calls
    PROPERTIES OUTPUT_NAME weft_hook
               EXPORT_NAME hook_calls
               VERSION ${PROJECT_VERSION}
               SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
               LINKER_LANGUAGE C
               CXX_VISIBILITY_PRESET hidden
               VISIBILITY_INLINES_HIDDEN ON)
  weft_compile_options(weft_hook_calls)
  # It defines what _FORTIFY_SOURCE would redirect. A sanitizer's functions call it, and may not be ready yet. A thread that is cancelled in a call
  # of the C library unwinds through it.
  target_compile_options(
    weft_hook_calls PRIVATE -U_FORTIFY_SOURCE -fno-exceptions -fno-rtti -fasynchronous-unwind-tables -fno-sanitize=all
                            -ftls-model=initial-exec ${WEFT_STACK_CLASH_PROTECTION})
  target_include_directories(weft_hook_calls PRIVATE "${weft_BINARY_DIR}/include")
  target_link_libraries(weft_hook_calls PRIVATE ${CMAKE_DL_LIBS})
  if(WEFT_SANITIZE STREQUAL "")
    target_link_options(weft_hook_calls PRIVATE "LINKER:-z,defs")
  endif()

  add_library(weft_hook_fibers STATIC ${arg_FIBERS})
  set_target_properties(weft_hook_fibers PROPERTIES EXPORT_NAME hook_fibers POSITION_INDEPENDENT_CODE ON)
  target_compile_options(weft_hook_fibers PRIVATE -ffunction-sections -fdata-sections ${WEFT_STACK_CLASH_PROTECTION})
  weft_compile_options(weft_hook_fibers)
  target_link_libraries(weft_hook_fibers PUBLIC weft_weft ${CMAKE_DL_LIBS})

  # Nothing else names the object that attaches.
  add_library(weft_hook INTERFACE)
  target_link_libraries(weft_hook INTERFACE weft_hook_fibers weft_hook_calls)
  target_link_options(weft_hook INTERFACE "LINKER:-u,weft_hook_linked")
  add_library(weft_hook_preloadable INTERFACE)
  target_link_libraries(weft_hook_preloadable INTERFACE weft_hook_fibers)
  target_link_options(weft_hook_preloadable INTERFACE "LINKER:-u,weft_hook_preloadable")
  foreach(name IN ITEMS hook hook_preloadable)
    set_target_properties(weft_${name} PROPERTIES EXPORT_NAME ${name})
    add_library(weft::${name} ALIAS weft_${name})
  endforeach()
  if(WEFT_INSTALL)
    weft_install_hook()
  endif()
endfunction()

function(weft_install_hook)
  install(
    TARGETS weft_hook_calls weft_hook_fibers weft_hook weft_hook_preloadable
    EXPORT weft-hook-targets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(
    EXPORT weft-hook-targets
    NAMESPACE weft::
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/weft")
  weft_make_pkg_config(weft-hook.pc "Blocking calls park Weft's fibers" "weft = ${weft_VERSION}"
                       "-Wl,-u,weft_hook_linked -lweft_hook_fibers -lweft_hook")
  weft_make_pkg_config(weft-hook-preloadable.pc "Blocking calls park Weft's fibers, if libweft_hook.so is preloaded"
                       "weft = ${weft_VERSION}" "-Wl,-u,weft_hook_preloadable -lweft_hook_fibers -ldl")
  install(FILES "${weft_BINARY_DIR}/pkgconfig/weft-hook.pc" "${weft_BINARY_DIR}/pkgconfig/weft-hook-preloadable.pc"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endfunction()
