# How every target of the house is made: one static library per folder, one warning policy.

add_library(lockstep_policy INTERFACE)
target_compile_options(lockstep_policy INTERFACE $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:${OpenMP_CXX_FLAGS}>>)
target_compile_features(lockstep_policy INTERFACE cxx_std_20)
# Designated initialisers leave the rest at its defaults on purpose. GCC 12 raises false alarms of -Wrestrict on
# std::string's operator+ (gcc.gnu.org/PR105329).
target_compile_options(lockstep_policy INTERFACE
  $<BUILD_INTERFACE:-Wall -Wextra -Wshadow -Wconversion -Wno-missing-field-initializers -Wno-restrict
  -fno-math-errno>)
if(LOCKSTEP_SANITIZE)
  # GCC's manual: sanitizers make false alarms more frequent, most of all those of -Wmaybe-uninitialized.
  target_compile_options(lockstep_policy INTERFACE
    $<BUILD_INTERFACE:-fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
    -Wno-maybe-uninitialized>)
  target_link_options(lockstep_policy INTERFACE $<BUILD_INTERFACE:-fsanitize=${LOCKSTEP_SANITIZE}>)
endif()

# A release checks the sizes of copies, the bounds of containers and the stack, but for targets with the property UNCHECKED
# (kernels' inner loops), and its relocations are read-only from the start. Sanitizers have checks of their own, which these
# would hide. Distributions set another _FORTIFY_SOURCE.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT LOCKSTEP_SANITIZE)
  set(is_checked $<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<BOOL:$<TARGET_PROPERTY:UNCHECKED>>>>)
  target_compile_options(lockstep_policy INTERFACE
    "$<BUILD_INTERFACE:$<${is_checked}:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3;-D_GLIBCXX_ASSERTIONS;-fstack-protector-strong>>")
  target_link_options(lockstep_policy INTERFACE $<BUILD_INTERFACE:LINKER:-z,relro,-z,now>)
endif()

# What most files include, parsed once for all libraries: without it a build takes half as long again. Compilers take such a
# header only with the options that it was made with, so that all have the kernels' option for OpenMP.
set(precompiled <algorithm> <array> <chrono> <filesystem> <functional> <map> <memory> <optional> <span> <string>
  <string_view> <variant> <vector> <fmt/format.h>)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/precompiled.cpp CONTENT "")
function(lockstep_precompile name)
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/generated/precompiled.cpp)
  target_link_libraries(${name} PRIVATE lockstep_policy fmt::fmt)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_precompile_headers(${name} PRIVATE ${precompiled})
endfunction()
lockstep_precompile(lockstep_precompiled)

# Code of a few microseconds in a run, such as the table of options: a release optimises it less, for a build
# in less time (tests/bench/build_time). A header that was made at another -O gcc 12 takes all the same, later ones do not.
set(seldom_options $<$<CONFIG:Release>:-Og>)
set(precompiled_seldom lockstep_precompiled)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(precompiled_seldom lockstep_precompiled_seldom)
  lockstep_precompile(${precompiled_seldom})
  target_compile_options(${precompiled_seldom} PRIVATE ${seldom_options})
endif()
function(lockstep_runs_seldom)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE ${seldom_options})
    set_target_properties(${target} PROPERTIES
      POSITION_INDEPENDENT_CODE ON PRECOMPILE_HEADERS_REUSE_FROM ${precompiled_seldom})
  endforeach()
endfunction()

# lockstep_library(NAME SOURCES a.cpp ... OF_EACH_STEP regex LINKS public libraries ... PRIVATE_LINKS ...): lockstep::NAME. With
# OF_EACH_STEP all sources but those that it matches run seldom.
function(lockstep_library name)
  cmake_parse_arguments(ARG "" "OF_EACH_STEP" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  if(ARG_OF_EACH_STEP)
    set(seldom ${ARG_SOURCES})
    list(FILTER seldom EXCLUDE REGEX ${ARG_OF_EACH_STEP})
    list(REMOVE_ITEM ARG_SOURCES ${seldom})
    add_library(lockstep_${name}_seldom OBJECT ${seldom})
    target_link_libraries(lockstep_${name}_seldom PRIVATE lockstep_policy ${ARG_LINKS} ${ARG_PRIVATE_LINKS})
    lockstep_runs_seldom(lockstep_${name}_seldom)
    list(APPEND ARG_SOURCES $<TARGET_OBJECTS:lockstep_${name}_seldom>)
  endif()
  add_library(lockstep_${name} STATIC ${ARG_SOURCES})
  add_library(lockstep::${name} ALIAS lockstep_${name})
  set_target_properties(lockstep_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(lockstep_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/lockstep>)
  target_link_libraries(lockstep_${name} PUBLIC lockstep_policy ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS})
  target_precompile_headers(lockstep_${name} REUSE_FROM lockstep_precompiled)
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_LIBRARIES lockstep_${name})
endfunction()

# lockstep_program(NAME LINKS ...): the program of main.cpp, which is compiled as a library is, for its precompiled headers.
function(lockstep_program name)
  cmake_parse_arguments(ARG "" "" "LINKS" ${ARGN})
  add_library(lockstep_${name}_main OBJECT main.cpp)
  target_link_libraries(lockstep_${name}_main PRIVATE lockstep_policy ${ARG_LINKS} fmt::fmt)
  lockstep_runs_seldom(lockstep_${name}_main)
  add_executable(${name} $<TARGET_OBJECTS:lockstep_${name}_main>)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${name} PRIVATE ${ARG_LINKS})
endfunction()

# tests_<label> builds all test programs of a label, and the programs that they start
foreach(label unit parity cluster fault fuzz slow interop slurm gpu vendor cuda conformance threads)
  add_custom_target(tests_${label})
endforeach()

# lockstep_test(NAME LABEL label SOURCES a.cpp ... LINKS ... [TIMEOUT s]): one Catch2 program, one ctest entry
function(lockstep_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;LINKS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  target_link_libraries(test_${name} PRIVATE ${ARG_LINKS} lockstep_catch_main)
  if(NOT "${ARG_LINKS}" MATCHES "simgpu")  # which has options of its own
    target_precompile_headers(test_${name} REUSE_FROM lockstep_precompiled_tests)
    target_compile_options(test_${name} PRIVATE ${seldom_options})
  endif()
  add_test(NAME ${name} COMMAND test_${name})
  lockstep_label_test(${name} ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} NEEDS test_${name})
endfunction()

# lockstep_cuda_test(NAME LABEL label [TIMEOUT s] [KERNELS] [PRECISION p]): the test program of that name once more, on the
# GPU or, in a simulated build, on the CUDA machine in software. KERNELS: it looks at our own kernels, so the simulator runs
# it with the threads of a block in two orders, and the builds with sanitizers (tests_kernels_cuda) have it too. PRECISION:
# also with products at that --matmul-precision.
add_custom_target(tests_kernels_cuda)
function(lockstep_cuda_test name)
  cmake_parse_arguments(ARG "KERNELS" "LABEL;TIMEOUT;PRECISION" "" ${ARGN})
  if(NOT LOCKSTEP_CUDA)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  set(more_test_labels cuda)
  set(runs ${name}_cuda)
  if(NOT LOCKSTEP_CUDA STREQUAL "sim")
    set(ARG_LABEL gpu)
  elseif(ARG_KERNELS)
    list(APPEND runs ${name}_cuda_reverse)
    add_dependencies(tests_kernels_cuda test_${name})
  endif()
  if(ARG_PRECISION)
    list(APPEND runs ${name}_cuda_${ARG_PRECISION})
  endif()
  foreach(run ${runs})
    add_test(NAME ${run} COMMAND test_${name})
    lockstep_label_test(${run} ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} NEEDS test_${name})
    set_tests_properties(${run} PROPERTIES ENVIRONMENT LOCKSTEP_TEST_DEVICE=cuda)
    if(ARG_KERNELS)
      set_property(TEST ${run} APPEND PROPERTY LABELS kernels_cuda)
    endif()
    if(run MATCHES "_reverse$")
      set_property(TEST ${run} APPEND PROPERTY ENVIRONMENT SIMGPU_THREAD_ORDER=reverse)
    endif()
    if(ARG_PRECISION AND run MATCHES "_${ARG_PRECISION}$")
      set_property(TEST ${run} APPEND PROPERTY ENVIRONMENT LOCKSTEP_TEST_PRECISION=${ARG_PRECISION})
    endif()
  endforeach()
endfunction()

# lockstep_label_test(NAME LABEL TIMEOUT s [NEEDS targets ...]): what every ctest entry has, script or program. The
# folder's name is a second label, and more_test_labels, if the caller has set it, are others.
function(lockstep_label_test name label)
  cmake_parse_arguments(ARG "" "TIMEOUT" "NEEDS" ${ARGN})
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set(labels ${label} ${folder} ${more_test_labels})
  list(REMOVE_DUPLICATES labels)
  if(LOCKSTEP_SANITIZE)
    math(EXPR ARG_TIMEOUT "4 * ${ARG_TIMEOUT}")  # instrumented code takes several times as long
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${ARG_TIMEOUT})
  if(NOT label MATCHES "^(unit|parity)$")
    set_tests_properties(${name} PROPERTIES PROCESSORS 2)  # several ranks each: not side by side on two cores
  endif()
  foreach(target launch trainer ${ARG_NEEDS})
    foreach(one ${label} ${more_test_labels})
      if(TARGET ${target})
        add_dependencies(tests_${one} ${target})
      endif()
    endforeach()
  endforeach()
endfunction()
