# Makes a changed copy of a file, for a model test to be compiled with:
#   cmake -DHEADER=<in> -DOUT=<out> "-DPATCHES=<patch>|<patch>..." -P mutate.cmake
#
# A patch says which file it is for, and what changes, in pairs of lines; everything else in it is comment:
#
#   file: <layer>/<file>
#   found by: <test>       (if it is given: see CMakeLists.txt)
#   - <text that occurs exactly once in the file; \n is a new line>
#   + <what takes its place>
#
# It is an error if the text does not occur, or occurs twice: the file has changed, and the patch must be checked.
cmake_minimum_required(VERSION 3.22)

file(READ "${HEADER}" text)
string(REPLACE "|" ";" patches "${PATCHES}")
foreach(patch IN LISTS patches)
  file(READ "${patch}" rest)
  set(rest "\n${rest}")
  set(pairs 0)
  while(rest MATCHES "\n- ([^\n]*)\n\\+ ?([^\n]*)(\n|$)")
    # The next MATCHES sets these anew.
    set(match "${CMAKE_MATCH_0}")
    set(from "${CMAKE_MATCH_1}")
    set(to "${CMAKE_MATCH_2}")
    string(REPLACE "\\n" "\n" from "${from}")
    string(REPLACE "\\n" "\n" to "${to}")
    string(FIND "${rest}" "${match}" at)
    string(LENGTH "${match}" length)
    math(EXPR at "${at} + ${length} - 1")
    string(SUBSTRING "${rest}" ${at} -1 rest)

    string(FIND "${text}" "${from}" first)
    string(FIND "${text}" "${from}" last REVERSE)
    if(first EQUAL -1)
      message(FATAL_ERROR "${patch}: not in ${HEADER}:\n  ${from}")
    elseif(NOT first EQUAL last)
      message(FATAL_ERROR "${patch}: more than once in ${HEADER}:\n  ${from}")
    endif()
    string(REPLACE "${from}" "${to}" text "${text}")
    math(EXPR pairs "${pairs} + 1")
  endwhile()
  if(pairs EQUAL 0)
    message(FATAL_ERROR "${patch}: has no pair of lines '- ' and '+ '")
  endif()
endforeach()
file(WRITE "${OUT}" "${text}")
