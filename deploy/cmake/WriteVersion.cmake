# Run in each build by LockstepVersion.cmake: writes OUTPUT from TEMPLATE with VERSION and the commit of SOURCE_DIR. In a plain
# copy, and without git, a hash of the sources takes its place, so that builds of two archives are told apart.
cmake_policy(VERSION 3.25)

# Of what is compiled, its names included: pages, scripts and tests may change.
function(name_by_sources source_dir name)
  set(patterns deploy/cmake/*.cmake deploy/cmake/*.in)
  foreach(folder kernels comm data model runtime launcher tests/simgpu)
    foreach(kind CMakeLists.txt *.cpp *.h *.cu *.cuh *.def *.in *.json *.map)
      list(APPEND patterns ${folder}/${kind})
    endforeach()
  endforeach()
  list(TRANSFORM patterns PREPEND ${source_dir}/)
  file(GLOB_RECURSE sources LIST_DIRECTORIES false RELATIVE ${source_dir} ${patterns})  # sorted
  list(FILTER sources EXCLUDE REGEX "(^|/)[.]")  # an editor's, which may be links to nothing
  if(NOT sources)
    return()
  endif()
  foreach(source CMakeLists.txt ${sources})
    file(SHA256 ${source_dir}/${source} hash)
    string(APPEND hashes "${hash} ${source}\n")
  endforeach()
  string(SHA256 hash "${hashes}")
  string(SUBSTRING ${hash} 0 12 hash)
  set(${name} sources-${hash} PARENT_SCOPE)  # no commit is written so
endfunction()

set(COMMIT "")
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT} describe --always --dirty --abbrev=12 --exclude=* WORKING_DIRECTORY ${SOURCE_DIR}
    OUTPUT_VARIABLE described RESULT_VARIABLE status ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(status EQUAL 0)
    set(COMMIT ${described})
  endif()
endif()
if(COMMIT STREQUAL "")
  set(COMMIT unknown)
  name_by_sources(${SOURCE_DIR} COMMIT)
endif()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
