add_executable(collective_rank collective_rank.cpp)
target_link_libraries(collective_rank PRIVATE lockstep_policy lockstep::comm)
foreach(test stopped_peers pauses)
  lockstep_test(fault_${test} LABEL fault TIMEOUT 300
    SOURCES ${test}.cpp
    LINKS lockstep::runtime lockstep_program nlohmann_json::nlohmann_json)
  target_compile_definitions(test_fault_${test} PRIVATE MPIRUN="${mpirun_program}"
    RANK_PROGRAM="$<TARGET_FILE:collective_rank>"
    LAUNCH_PROGRAM="$<TARGET_FILE:launch>" TRAINER_PROGRAM="$<TARGET_FILE:trainer>")
  add_dependencies(test_fault_${test} launch trainer collective_rank)
  add_test(NAME slow_${test} COMMAND test_fault_${test} [matrix])
  lockstep_label_test(slow_${test} slow TIMEOUT 900 NEEDS test_fault_${test})
  set_tests_properties(slow_${test} PROPERTIES PROCESSORS 1)  # their ranks stand still most of the time
endforeach()
lockstep_test(fault_scale LABEL fault TIMEOUT 300
  SOURCES scale.cpp
  LINKS lockstep::runtime lockstep_comm_ranks lockstep_program nlohmann_json::nlohmann_json)
target_compile_definitions(test_fault_scale PRIVATE
  LAUNCH_PROGRAM="$<TARGET_FILE:launch>" TRAINER_PROGRAM="$<TARGET_FILE:trainer>")
add_dependencies(test_fault_scale launch trainer)
add_test(NAME slow_scale COMMAND test_fault_scale [matrix])
lockstep_label_test(slow_scale slow TIMEOUT 600 NEEDS test_fault_scale)
if(NOT LOCKSTEP_SANITIZE)
  lockstep_preloaded(lockstep_clock_jumps clock_jumps.cpp)
  lockstep_test(fault_clocks LABEL fault TIMEOUT 300
    SOURCES clocks.cpp
    LINKS lockstep::runtime lockstep_program nlohmann_json::nlohmann_json)
  target_compile_definitions(test_fault_clocks PRIVATE CLOCK_JUMPS="$<TARGET_FILE:lockstep_clock_jumps>"
    LAUNCH_PROGRAM="$<TARGET_FILE:launch>" TRAINER_PROGRAM="$<TARGET_FILE:trainer>")
  add_dependencies(test_fault_clocks launch trainer lockstep_clock_jumps)
endif()
