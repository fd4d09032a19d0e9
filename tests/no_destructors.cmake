# Nothing of the library is destroyed when the process exits: workers, timer threads and the users' own threads continue until it is gone.
#   cmake -DNM=<nm> "-DLIBRARIES=<lib>|<lib>..." -P no_destructors.cmake
# An object file that registers a destructor refers to __cxa_atexit (static storage duration) or __cxa_thread_atexit (thread_local).
cmake_minimum_required(VERSION 3.22)

# <object>:<symbol>, and why it does no harm.
set(allowed
    # gflags registers the end of its string flags. They are read by StartRuntime() and by the first blocking call.
    runtime_flags.cc.o:__cxa_atexit
    # Not to destroy anything: prints the flags at the exit() of --helpshort, and the version, in programs that have started no runtime.
    runtime_flags.cc.o:atexit
    # The FiberLocals of the main thread end with its thread_locals; what uses them later gets a new table (base/thread/exit.h).
    fiber_local.cc.o:__cxa_thread_atexit)

string(REPLACE "|" ";" libraries "${LIBRARIES}")
set(objects 0)
set(found "")
foreach(library IN LISTS libraries)
  execute_process(COMMAND "${NM}" "${library}" OUTPUT_VARIABLE text RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${NM} ${library}: ${failed}")
  endif()
  string(REPLACE "\n" ";" lines "${text}")
  foreach(line IN LISTS lines)
    if(line MATCHES "^([^ ]+\\.o):$")
      set(object "${CMAKE_MATCH_1}")
      math(EXPR objects "${objects} + 1")
    elseif(line MATCHES " U (__cxa_atexit|__cxa_thread_atexit|atexit|on_exit)$")
      list(APPEND found "${object}:${CMAKE_MATCH_1}")
    endif()
  endforeach()
endforeach()

if(objects LESS 50)
  message(FATAL_ERROR "only ${objects} object files were looked at")
endif()
foreach(one IN LISTS allowed)
  if(NOT one IN_LIST found)
    message(SEND_ERROR "${one} is allowed, and is not there any more: take it from the list")
  endif()
endforeach()
list(REMOVE_ITEM found ${allowed})
foreach(one IN LISTS found)
  message(SEND_ERROR "${one}: something is destroyed when the process or a thread ends. Make it trivial, or never destroy it")
endforeach()
