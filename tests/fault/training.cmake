lockstep_test(fault_training LABEL fault TIMEOUT 120
  SOURCES anomalies.cpp training.cpp wrong_numbers.cpp
  LINKS lockstep::base lockstep_program nlohmann_json::nlohmann_json)
target_compile_definitions(test_fault_training PRIVATE
  LAUNCH_PROGRAM="$<TARGET_FILE:launch>" TRAINER_PROGRAM="$<TARGET_FILE:trainer>")
add_dependencies(test_fault_training launch trainer)
if(NOT LOCKSTEP_SANITIZE)
  lockstep_preloaded(lockstep_hung_disk hung_disk.cpp)
  lockstep_test(fault_waits LABEL fault TIMEOUT 120
    SOURCES waits.cpp
    LINKS lockstep::base lockstep_program nlohmann_json::nlohmann_json)
  lockstep_test(fault_resume_kills LABEL fault TIMEOUT 200
    SOURCES received_checkpoint.cpp resume_kills.cpp
    LINKS lockstep::runtime lockstep_program nlohmann_json::nlohmann_json)
  lockstep_test(fault_resume_features LABEL fault TIMEOUT 200
    SOURCES resume_features.cpp resume_ranks_kills.cpp
    LINKS lockstep::data lockstep::runtime lockstep_program nlohmann_json::nlohmann_json JPEG::JPEG SPNG::spng)
  lockstep_test(fault_resume_sequences LABEL fault TIMEOUT 200
    SOURCES resume_sequences.cpp
    LINKS lockstep::runtime lockstep_program nlohmann_json::nlohmann_json)
  foreach(test waits resume_kills resume_features resume_sequences)
    target_compile_definitions(test_fault_${test} PRIVATE HUNG_DISK="$<TARGET_FILE:lockstep_hung_disk>"
      LAUNCH_PROGRAM="$<TARGET_FILE:launch>" TRAINER_PROGRAM="$<TARGET_FILE:trainer>")
    add_dependencies(test_fault_${test} launch trainer lockstep_hung_disk)
  endforeach()
  target_compile_definitions(test_fault_resume_kills PRIVATE NEMESIS_HOOK="$<TARGET_FILE:nemesis_hook>")
  add_dependencies(test_fault_resume_kills nemesis_hook)
  if(LOCKSTEP_CUDA STREQUAL "sim")
    lockstep_cuda_test(fault_resume_sequences LABEL fault TIMEOUT 200)
  endif()
endif()
lockstep_test(fault_start LABEL fault TIMEOUT 300
  SOURCES name_servers.cpp second_start.cpp
  LINKS lockstep_comm_ranks lockstep_program nlohmann_json::nlohmann_json)
target_compile_definitions(test_fault_start PRIVATE
  LAUNCH_PROGRAM="$<TARGET_FILE:launch>" TRAINER_PROGRAM="$<TARGET_FILE:trainer>")
add_dependencies(test_fault_start launch trainer)
add_library(gated_plugin MODULE gated_plugin.cpp)
target_link_libraries(gated_plugin PRIVATE lockstep::plugin lockstep_policy)
lockstep_test(fault_exchanges LABEL fault TIMEOUT 120
  SOURCES exchange_kills.cpp
  LINKS lockstep::base lockstep_program nlohmann_json::nlohmann_json)
target_compile_definitions(test_fault_exchanges PRIVATE GATED_PLUGIN="$<TARGET_FILE:gated_plugin>"
  LAUNCH_PROGRAM="$<TARGET_FILE:launch>" TRAINER_PROGRAM="$<TARGET_FILE:trainer>")
add_dependencies(test_fault_exchanges launch trainer gated_plugin)
