lockstep_test(fault_stop LABEL fault TIMEOUT 300
  SOURCES stop_agents.cpp stop_job.cpp stop_signals.cpp stop_streams.cpp stop_wrappers.cpp
  LINKS lockstep::launcher lockstep::runtime lockstep_program nlohmann_json::nlohmann_json)
if(NOT LOCKSTEP_SANITIZE) # which takes the address space that the test limits
  target_sources(test_fault_stop PRIVATE stop_memory.cpp)
endif()
target_compile_definitions(test_fault_stop PRIVATE MPIRUN="${mpirun_program}"
  LAUNCH_PROGRAM="$<TARGET_FILE:launch>" TRAINER_PROGRAM="$<TARGET_FILE:trainer>")
add_dependencies(test_fault_stop launch trainer)
