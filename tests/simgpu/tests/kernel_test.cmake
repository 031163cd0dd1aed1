# simgpu_kernel_test(NAME SANITIZE thread|address|… SOURCES a.cu b.cpp … [LINKS …]): a program test_NAME whose sources, kernels
# among them, are instrumented, while the simulator is not: its own bookkeeping is not what is looked at. No program
# has two sanitizers, so there is none in a build that has another one everywhere.
function(simgpu_kernel_test name)
  cmake_parse_arguments(ARG "" "SANITIZE" "SOURCES;LINKS" ${ARGN})
  add_executable(test_${name} ${ARG_SOURCES})
  target_link_libraries(test_${name} PRIVATE simgpu ${ARG_LINKS})
  target_compile_options(test_${name} PRIVATE -Wall -Wextra -Wshadow -Wconversion -O1 -g -fno-omit-frame-pointer
    -fsanitize=${ARG_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(test_${name} PRIVATE -fsanitize=${ARG_SANITIZE})
  set_target_properties(test_${name} PROPERTIES ENABLE_EXPORTS ON)  # kernels have names in reports
  foreach(source ${ARG_SOURCES})
    if(source MATCHES "\\.cu$")
      set_source_files_properties(${source} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS -xc++)
    endif()
  endforeach()
endfunction()

# simgpu_mistakes(NAME REPORT regex MISTAKES a b …): `test_NAME a` must end with a report that matches, and its mended twin
# `test_NAME a_mended` without any.
function(simgpu_mistakes name)
  cmake_parse_arguments(ARG "" "REPORT" "MISTAKES" ${ARGN})
  foreach(mistake ${ARG_MISTAKES})
    add_test(NAME ${name}_${mistake} COMMAND test_${name} ${mistake})
    add_test(NAME ${name}_${mistake}_mended COMMAND test_${name} ${mistake}_mended)
    lockstep_label_test(${name}_${mistake} slow TIMEOUT 120 NEEDS test_${name})
    lockstep_label_test(${name}_${mistake}_mended slow TIMEOUT 120 NEEDS test_${name})
    set_tests_properties(${name}_${mistake} PROPERTIES PASS_REGULAR_EXPRESSION "${ARG_REPORT}")
  endforeach()
endfunction()
