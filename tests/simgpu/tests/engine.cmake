# A build with a sanitizer everywhere has the tests that need none of it elsewhere: these make mistakes on purpose, or
# let threads of a grid count in one variable.
if(LOCKSTEP_SANITIZE)
  return()
endif()

add_executable(test_simgpu_engine
  engine_atomics.cpp
  engine_barriers.cpp
  engine_copies.cpp
  engine_deadlock.cpp
  engine_functions.cpp
  engine_launch.cpp
  engine_order.cpp
  engine_shared.cpp
  engine_speed.cpp
  engine_support.cpp
  engine_traffic.cpp
  engine_warps.cpp)
target_link_libraries(test_simgpu_engine PRIVATE simgpu lockstep_catch_main)
set_target_properties(test_simgpu_engine PROPERTIES ENABLE_EXPORTS ON)  # kernels have names in reports
# Threads of a grid run in no promised order, so the same must hold in each.
foreach(order forward reverse shuffled:1 shuffled:2 shuffled:3)
  string(REPLACE ":" "_" name simgpu_engine_${order})
  add_test(NAME ${name} COMMAND test_simgpu_engine)
  lockstep_label_test(${name} unit TIMEOUT 60 NEEDS test_simgpu_engine)
  set_tests_properties(${name} PROPERTIES ENVIRONMENT SIMGPU_THREAD_ORDER=${order})
endforeach()

# The fallback for processors without a switch of their own.
lockstep_test(simgpu_engine_context LABEL unit SOURCES engine_context.cpp ../engine/context_ucontext.cpp)
target_link_libraries(test_simgpu_engine_context PRIVATE simgpu_headers)

include(${CMAKE_CURRENT_LIST_DIR}/kernel_test.cmake)
simgpu_kernel_test(simgpu_races SANITIZE thread SOURCES engine_races.cu engine_cases.cpp)
simgpu_mistakes(simgpu_races REPORT "data race.*engine_races\\.cu:[0-9]+"
  MISTAKES read_before_write write_before_read read_before_copy copy_before_read lanes_read_before_write
  tile_read_before_write plain_addition reduction softmax local_array)
simgpu_kernel_test(simgpu_bounds SANITIZE address,undefined SOURCES engine_bounds.cu engine_cases.cpp)
simgpu_mistakes(simgpu_bounds REPORT "AddressSanitizer.*engine_bounds\\.cu:[0-9]+|engine_bounds\\.cu:[0-9:]+ runtime error"
  MISTAKES device_memory dynamic_shared static_shared plain_shared own_array)
