lockstep_test(fault_launch LABEL fault TIMEOUT 120
  SOURCES launch_failures.cpp launch_folders.cpp launch_nodes.cpp launch_output.cpp launch_reaper.cpp
    launch_restarts.cpp launch_signals.cpp launch_successors.cpp
  LINKS lockstep::base lockstep_program)
target_compile_definitions(test_fault_launch PRIVATE LAUNCH_PROGRAM="$<TARGET_FILE:launch>")
add_dependencies(test_fault_launch launch)
