# lockstep::version: kernels/base/version.h answered by a source file that is written in every build and changed only when
# the commit did, so that a commit relinks the programs and compiles nothing else.

add_custom_target(lockstep_version_source
  COMMAND ${CMAKE_COMMAND} -D SOURCE_DIR=${PROJECT_SOURCE_DIR} -D VERSION=${PROJECT_VERSION}
    -D TEMPLATE=${CMAKE_CURRENT_LIST_DIR}/version.cpp.in -D OUTPUT=${PROJECT_BINARY_DIR}/generated/version.cpp
    -P ${CMAKE_CURRENT_LIST_DIR}/WriteVersion.cmake
  BYPRODUCTS ${PROJECT_BINARY_DIR}/generated/version.cpp
  COMMENT "Looking up the commit" VERBATIM)

lockstep_library(version SOURCES ${PROJECT_BINARY_DIR}/generated/version.cpp)
set_target_properties(lockstep_version PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
add_dependencies(lockstep_version lockstep_version_source)
