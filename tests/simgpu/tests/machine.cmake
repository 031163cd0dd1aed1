# Each test of the machine runs under every policy: what the order of streams leaves open must not matter.
add_executable(test_simgpu_machine
  machine_capture.cpp
  machine_errors.cpp
  machine_host.cpp
  machine_memory.cpp
  machine_order.cpp
  machine_random_programs.cpp
  machine_records.cpp
  machine_streams.cpp
  machine_support.cpp)
target_link_libraries(test_simgpu_machine PRIVATE simgpu nlohmann_json::nlohmann_json lockstep_catch_main)
add_executable(leak_program leak_program.cpp)
target_link_libraries(leak_program PRIVATE simgpu)
target_compile_definitions(test_simgpu_machine PRIVATE LEAK_PROGRAM="$<TARGET_FILE:leak_program>")
foreach(policy eager lazy random:1 random:2 random:3)
  string(REPLACE ":" "_" name simgpu_machine_${policy})
  add_test(NAME ${name} COMMAND test_simgpu_machine)
  lockstep_label_test(${name} unit TIMEOUT 60 NEEDS test_simgpu_machine leak_program)
  set_tests_properties(${name} PROPERTIES ENVIRONMENT SIMGPU_POLICY=${policy})
endforeach()
