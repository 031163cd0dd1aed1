if(NOT LOCKSTEP_SANITIZE)  # which want to be the first library that is preloaded
  add_library(nemesis_hook MODULE nemesis/hook.cpp nemesis/strike.cpp)
  target_include_directories(nemesis_hook PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(nemesis_hook PRIVATE lockstep_policy ${CMAKE_DL_LIBS})
  set_target_properties(nemesis_hook PROPERTIES CXX_VISIBILITY_PRESET default)
  add_library(nemesis_plugin MODULE nemesis/plugin.cpp)
  target_link_libraries(nemesis_plugin PRIVATE lockstep::plugin lockstep_policy ${CMAKE_DL_LIBS})
  add_executable(nemesis nemesis/main.cpp nemesis/job.cpp nemesis/judge.cpp nemesis/processes.cpp nemesis/round.cpp)
  target_link_libraries(nemesis PRIVATE lockstep_policy lockstep::base nlohmann_json::nlohmann_json fmt::fmt)
  target_compile_definitions(nemesis PRIVATE
    LAUNCH_PROGRAM="$<TARGET_FILE:launch>" TRAINER_PROGRAM="$<TARGET_FILE:trainer>"
    NEMESIS_HOOK="$<TARGET_FILE:nemesis_hook>" NEMESIS_PLUGIN="$<TARGET_FILE:nemesis_plugin>")
  add_dependencies(nemesis launch trainer nemesis_hook nemesis_plugin)
  add_test(NAME fault_nemesis COMMAND nemesis --rounds 20 --first-seed 1)
  lockstep_label_test(fault_nemesis fault TIMEOUT 240 NEEDS nemesis)
  add_test(NAME slow_nemesis COMMAND nemesis --rounds 100 --first-seed 21)
  lockstep_label_test(slow_nemesis slow TIMEOUT 900 NEEDS nemesis)
endif()
