# cmake -DNM= -DLIBRARY=<libweft.so> -DOBJECT=<all inline functions of public headers> -P inline_functions.cmake
#
# The library shows what inline functions call: else programs that call them do not link.
execute_process(COMMAND "${NM}" --dynamic --defined-only "${LIBRARY}" OUTPUT_VARIABLE shown COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "_Z[^\n]+" shown "${shown}")
execute_process(COMMAND "${NM}" --undefined-only "${OBJECT}" OUTPUT_VARIABLE called COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "_Z[^\n]*4weft[^\n]+" called "${called}")
list(LENGTH called count)
if(count LESS 50)
  message(FATAL_ERROR "inline functions call ${count} functions only: is ${OBJECT} compiled with -fkeep-inline-functions?")
endif()
list(REMOVE_ITEM called ${shown})
# Of internal headers, called by no inline function of a public one.
list(FILTER called EXCLUDE REGEX "SliceLimits|Watchdog|16SetThreadMayWait|15ThisThreadErrno")
if(called)
  list(JOIN called "\n  " called)
  message(FATAL_ERROR "cmake/weft.map hides what inline functions call:\n  ${called}")
endif()
message(STATUS "${count} symbols")
