add_executable(test_simgpu_math
  ${PROJECT_SOURCE_DIR}/kernels/cuda/handles.cpp
  machine_support.cpp
  math_convolution.cpp
  math_gemm.cpp)
target_link_libraries(test_simgpu_math PRIVATE lockstep_simgpu_math simgpu lockstep::kernels lockstep_catch_main)
foreach(policy eager lazy random:1)
  string(REPLACE ":" "_" name simgpu_math_${policy})
  add_test(NAME ${name} COMMAND test_simgpu_math)
  lockstep_label_test(${name} unit TIMEOUT 60 NEEDS test_simgpu_math)
  set_tests_properties(${name} PROPERTIES ENVIRONMENT SIMGPU_POLICY=${policy})
endforeach()
