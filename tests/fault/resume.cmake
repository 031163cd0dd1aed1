lockstep_test(fault_resume LABEL fault TIMEOUT 300
  SOURCES replica_divergence.cpp resume.cpp resume_full_disk.cpp resume_random.cpp resume_ranks.cpp resume_schedule.cpp
  LINKS lockstep::runtime lockstep_program nlohmann_json::nlohmann_json)
target_compile_definitions(test_fault_resume PRIVATE
  LAUNCH_PROGRAM="$<TARGET_FILE:launch>" TRAINER_PROGRAM="$<TARGET_FILE:trainer>")
add_dependencies(test_fault_resume launch trainer)
lockstep_test(fault_run_folder LABEL fault TIMEOUT 300
  SOURCES resume_disks.cpp run_folder.cpp
  LINKS lockstep::runtime lockstep_program nlohmann_json::nlohmann_json)
target_compile_definitions(test_fault_run_folder PRIVATE
  LAUNCH_PROGRAM="$<TARGET_FILE:launch>" TRAINER_PROGRAM="$<TARGET_FILE:trainer>")
add_dependencies(test_fault_run_folder launch trainer)
if(NOT LOCKSTEP_SANITIZE)
  lockstep_test(fault_disks LABEL fault TIMEOUT 120
    SOURCES disks.cpp
    LINKS lockstep::runtime lockstep_program nlohmann_json::nlohmann_json)
  target_compile_definitions(test_fault_disks PRIVATE NEMESIS_HOOK="$<TARGET_FILE:nemesis_hook>"
    LAUNCH_PROGRAM="$<TARGET_FILE:launch>" TRAINER_PROGRAM="$<TARGET_FILE:trainer>")
  add_dependencies(test_fault_disks launch trainer nemesis_hook)
  add_test(NAME slow_disks COMMAND test_fault_disks [matrix])
  lockstep_label_test(slow_disks slow TIMEOUT 900 NEEDS test_fault_disks)
endif()
