lockstep_test(fault_training LABEL fault TIMEOUT 120
  SOURCES training.cpp wrong_numbers.cpp
  LINKS lockstep::base lockstep_program nlohmann_json::nlohmann_json)
target_compile_definitions(test_fault_training PRIVATE
  LAUNCH_PROGRAM="$<TARGET_FILE:launch>" TRAINER_PROGRAM="$<TARGET_FILE:trainer>")
add_dependencies(test_fault_training launch trainer)
