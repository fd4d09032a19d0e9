# gdb's `bt` inside a flow ends at the entry trampoline, before and after the flow was suspended.  So does one of the suspended flow, from outside,
# through its saved stack pointer: Boost decides where the registers lie there, and this test pins that down for debugger scripts.
#   cmake -DPROGRAM=... -DPROCESSOR=... -P gdb_backtrace.cmake
# Prints "skipped: ..." where gdb may not trace a process.
find_program(GDB gdb REQUIRED)

# The first argument of StopOutside() is in rdi.
set(look_at_suspended)
set(expected_backtraces 2)
if(PROCESSOR STREQUAL "x86_64")
  foreach(
    command IN
    ITEMS "set $saved = (long*)$rdi"
          "set $rip = $saved[8]"
          "set $rbp = $saved[7]"
          "set $rbx = $saved[6]"
          "set $r12 = $saved[2]"
          "set $r13 = $saved[3]"
          "set $r14 = $saved[4]"
          "set $r15 = $saved[5]"
          "set $rsp = (long)($saved + 9)"
          "bt"
          "kill")
    list(APPEND look_at_suspended -ex "${command}")
  endforeach()
  set(expected_backtraces 3)
endif()

set(run "${GDB}" -nx -batch -ex "set debuginfod enabled off" -ex "set startup-with-shell off" -ex "set confirm off")
execute_process(
  COMMAND ${run} -ex "break StopHere" -ex run -ex bt -ex continue -ex bt "${PROGRAM}"
  OUTPUT_VARIABLE output
  ERROR_VARIABLE output
  TIMEOUT 60)
if(output MATCHES "ptrace: Operation not permitted|Could not trace|ptrace: Function not implemented|Cannot PTRACE")
  message("skipped: gdb cannot trace a process here")
  return()
endif()
if(look_at_suspended)
  execute_process(
    COMMAND ${run} -ex "break StopOutside" -ex run ${look_at_suspended} "${PROGRAM}"
    OUTPUT_VARIABLE more
    ERROR_VARIABLE more
    TIMEOUT 60)
  string(APPEND output "${more}")
endif()

foreach(bad IN ITEMS "corrupt stack" "Backtrace stopped" "Cannot access memory")
  if(output MATCHES "${bad}")
    message(FATAL_ERROR "gdb says: ${bad}\n${output}")
  endif()
endforeach()
# The last lines of the backtraces; four frames of InTheFlow() in the first and the last, six in the second.
string(REGEX MATCHALL "#[0-9]+ [^\n]* in weft_context_start \\(\\)" ends "${output}")
list(LENGTH ends count)
string(REGEX MATCHALL "#[0-9]+ [^\n]*InTheFlow" frames "${output}")
list(LENGTH frames depth)
math(EXPR expected_depth "${expected_backtraces} * 4 + 2")
if(NOT count EQUAL expected_backtraces OR NOT depth EQUAL expected_depth)
  message(
    FATAL_ERROR
      "expected ${expected_backtraces} backtraces that end in weft_context_start, with ${expected_depth} frames of "
      "InTheFlow in all; found ${count} and ${depth}\n${output}")
endif()
if(output MATCHES "weft_context_start \\(\\)[^\n]*\n#")
  message(FATAL_ERROR "a backtrace goes on beyond the entry\n${output}")
endif()
message("${output}")
