lockstep_test(fault_resume LABEL fault TIMEOUT 300
  SOURCES replica_divergence.cpp resume.cpp resume_finished.cpp resume_full_disk.cpp resume_logs.cpp resume_random.cpp
    resume_ranks.cpp resume_restarts.cpp resume_schedule.cpp
  LINKS lockstep::runtime lockstep_program nlohmann_json::nlohmann_json)
target_compile_definitions(test_fault_resume PRIVATE
  LAUNCH_PROGRAM="$<TARGET_FILE:launch>" TRAINER_PROGRAM="$<TARGET_FILE:trainer>")
add_dependencies(test_fault_resume launch trainer)
lockstep_test(fault_run_folder LABEL fault TIMEOUT 300
  SOURCES resume_disks.cpp run_folder.cpp umask.cpp
  LINKS lockstep::runtime lockstep_program nlohmann_json::nlohmann_json)
target_compile_definitions(test_fault_run_folder PRIVATE
  LAUNCH_PROGRAM="$<TARGET_FILE:launch>" TRAINER_PROGRAM="$<TARGET_FILE:trainer>")
add_dependencies(test_fault_run_folder launch trainer)
if(NOT LOCKSTEP_SANITIZE)
  foreach(test disks failed_calls limits)
    lockstep_test(fault_${test} LABEL fault TIMEOUT 300
      SOURCES ${test}.cpp
      LINKS lockstep::runtime lockstep_program nlohmann_json::nlohmann_json)
    target_compile_definitions(test_fault_${test} PRIVATE NEMESIS_HOOK="$<TARGET_FILE:nemesis_hook>"
      LAUNCH_PROGRAM="$<TARGET_FILE:launch>" TRAINER_PROGRAM="$<TARGET_FILE:trainer>")
    add_dependencies(test_fault_${test} launch trainer nemesis_hook)
  endforeach()
  foreach(test disks failed_calls)
    add_test(NAME slow_${test} COMMAND test_fault_${test} [matrix])
    lockstep_label_test(slow_${test} slow TIMEOUT 900 NEEDS test_fault_${test})
  endforeach()
endif()
