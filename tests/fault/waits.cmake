add_executable(collective_rank collective_rank.cpp)
target_link_libraries(collective_rank PRIVATE lockstep_policy lockstep::comm)
lockstep_test(fault_peers LABEL fault TIMEOUT 120
  SOURCES pauses.cpp stopped_peers.cpp
  LINKS lockstep::runtime lockstep_program nlohmann_json::nlohmann_json)
if(LOCKSTEP_MPI)
  find_program(MPIRUN mpirun)
endif()
target_compile_definitions(test_fault_peers PRIVATE MPIRUN="$<$<BOOL:${LOCKSTEP_MPI}>:${MPIRUN}>"
  RANK_PROGRAM="$<TARGET_FILE:collective_rank>"
  LAUNCH_PROGRAM="$<TARGET_FILE:launch>" TRAINER_PROGRAM="$<TARGET_FILE:trainer>")
add_dependencies(test_fault_peers launch trainer collective_rank)
add_test(NAME slow_peers COMMAND test_fault_peers [matrix])
lockstep_label_test(slow_peers slow TIMEOUT 900 NEEDS test_fault_peers)
