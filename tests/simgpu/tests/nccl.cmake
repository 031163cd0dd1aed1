# NCCL's tests under every policy too; ranks are processes.
add_executable(test_simgpu_nccl nccl_buffers.cpp nccl_graphs.cpp nccl_ranks.cpp nccl_rules.cpp nccl_sums.cpp)
target_link_libraries(test_simgpu_nccl PRIVATE simgpu lockstep_catch_main)
foreach(policy eager lazy random:1 random:2)
  string(REPLACE ":" "_" name simgpu_nccl_${policy})
  add_test(NAME ${name} COMMAND test_simgpu_nccl)
  lockstep_label_test(${name} unit TIMEOUT 120 NEEDS test_simgpu_nccl)
  set_tests_properties(${name} PROPERTIES PROCESSORS 2 ENVIRONMENT SIMGPU_POLICY=${policy})
endforeach()
