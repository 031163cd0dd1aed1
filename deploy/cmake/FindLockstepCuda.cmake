# NVIDIA's headers and libraries, from a toolkit of this machine or from the wheels that deploy/cuda-toolkit unpacks.
#
#   find_package(LockstepCuda 12.4 REQUIRED)                 headers alone, for the simulator: lockstep_cuda_headers
#   find_package(LockstepCuda 12.4 REQUIRED COMPONENTS libraries)  also lockstep_cuda_runtime, lockstep_cublaslt,
#                   lockstep_cudnn (with cudnn-frontend), lockstep_nccl, and LockstepCuda_NVCC, the compiler's path
#
# -DLOCKSTEP_CUDA_TOOLKIT=FOLDER takes that folder alone.
set(LOCKSTEP_CUDA_TOOLKIT "" CACHE PATH "CUDA toolkit to use; empty: CUDA_HOME, /usr/local/cuda, PATH, build/cuda-toolkit")

set(_wheels ${PROJECT_SOURCE_DIR}/build/cuda-toolkit)
if(LOCKSTEP_CUDA_TOOLKIT)
  set(_roots ${LOCKSTEP_CUDA_TOOLKIT})
else()
  set(_roots $ENV{CUDA_HOME} /usr/local/cuda)
  find_program(LOCKSTEP_NVCC_IN_PATH nvcc NO_CMAKE_PATH)
  mark_as_advanced(LOCKSTEP_NVCC_IN_PATH)
  if(LOCKSTEP_NVCC_IN_PATH)
    file(REAL_PATH ${LOCKSTEP_NVCC_IN_PATH} _nvcc)
    cmake_path(GET _nvcc PARENT_PATH _bin)
    cmake_path(GET _bin PARENT_PATH _root)
    list(APPEND _roots ${_root})
  endif()
  list(APPEND _roots ${_wheels})
endif()

# _lockstep_cuda_version(VARIABLE FOLDER): of the headers there.
function(_lockstep_cuda_version variable folder)
  file(STRINGS ${folder}/include/cuda_runtime_api.h line REGEX "^#define CUDART_VERSION +[0-9]+$")
  string(REGEX REPLACE "[^0-9]" "" version "${line}")
  math(EXPR major "${version} / 1000")
  math(EXPR minor "${version} % 1000 / 10")
  set(${variable} ${major}.${minor} PARENT_SCOPE)
endfunction()

# What deploy/cuda-toolkit passes over is passed over here: old toolkits, and parts of one.
function(_lockstep_cuda_is_wanted result folder)
  _lockstep_cuda_version(version ${folder})
  if(version VERSION_LESS LockstepCuda_FIND_VERSION OR ("libraries" IN_LIST LockstepCuda_FIND_COMPONENTS AND
      NOT (EXISTS ${folder}/bin/nvcc AND EXISTS ${folder}/include/cublasLt.h)))
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()

# The compiler, the headers and the libraries of CUDA itself come from one folder; what often lies beside a toolkit
# (cuDNN, NCCL) or never in one (cudnn-frontend) may come from the system or from the wheels.
find_path(LockstepCuda_ROOT include/cuda_runtime_api.h HINTS ${_roots} NO_DEFAULT_PATH VALIDATOR _lockstep_cuda_is_wanted)
set(_beside ${LockstepCuda_ROOT} ${_roots} ${_wheels})
find_path(LockstepCuda_NCCL_INCLUDE_DIR nccl.h HINTS ${_beside} PATH_SUFFIXES include)
set(_required LockstepCuda_ROOT LockstepCuda_NCCL_INCLUDE_DIR)
if(LockstepCuda_ROOT)
  _lockstep_cuda_version(LockstepCuda_VERSION ${LockstepCuda_ROOT})
endif()
set(_mend "run deploy/cuda-toolkit --headers")

if("libraries" IN_LIST LockstepCuda_FIND_COMPONENTS)
  set(_mend "run deploy/cuda-toolkit")
  find_program(LockstepCuda_NVCC nvcc HINTS ${LockstepCuda_ROOT}/bin NO_DEFAULT_PATH)
  # Debian's toolkit is in /usr; find_library adds the architecture to prefixes, not to HINTS.
  foreach(_library cudart cublasLt nvrtc)
    find_library(LockstepCuda_${_library} ${_library} HINTS ${LockstepCuda_ROOT} NO_DEFAULT_PATH
      PATH_SUFFIXES lib64 lib targets/${CMAKE_SYSTEM_PROCESSOR}-linux/lib lib/${CMAKE_LIBRARY_ARCHITECTURE})
  endforeach()
  foreach(_library cudnn nccl)
    find_library(LockstepCuda_${_library} ${_library} HINTS ${_beside} PATH_SUFFIXES lib64 lib)
  endforeach()
  find_path(LockstepCuda_CUDNN_INCLUDE_DIR cudnn.h HINTS ${_beside} PATH_SUFFIXES include)
  find_path(LockstepCuda_CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ${_beside} PATH_SUFFIXES include)
  list(APPEND _required LockstepCuda_NVCC LockstepCuda_cudart LockstepCuda_cublasLt LockstepCuda_nvrtc
    LockstepCuda_cudnn LockstepCuda_nccl LockstepCuda_CUDNN_INCLUDE_DIR
    LockstepCuda_CUDNN_FRONTEND_INCLUDE_DIR)
  set(LockstepCuda_libraries_FOUND TRUE)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LockstepCuda REQUIRED_VARS ${_required} HANDLE_COMPONENTS
  VERSION_VAR LockstepCuda_VERSION REASON_FAILURE_MESSAGE ${_mend})
mark_as_advanced(${_required})

# _lockstep_cuda_target(NAME LIBRARY INCLUDE_DIR...)
function(_lockstep_cuda_target name library)
  add_library(${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${library})
  target_include_directories(${name} SYSTEM INTERFACE ${ARGN})
  target_link_libraries(${name} INTERFACE lockstep_cuda_headers)
endfunction()

if(LockstepCuda_FOUND AND NOT TARGET lockstep_cuda_headers)
  add_library(lockstep_cuda_headers INTERFACE IMPORTED GLOBAL)
  target_include_directories(lockstep_cuda_headers SYSTEM INTERFACE
    ${LockstepCuda_ROOT}/include ${LockstepCuda_NCCL_INCLUDE_DIR})
endif()
if(LockstepCuda_libraries_FOUND AND LockstepCuda_FOUND AND NOT TARGET lockstep_cuda_runtime)
  _lockstep_cuda_target(lockstep_cuda_runtime ${LockstepCuda_cudart})
  _lockstep_cuda_target(lockstep_cublaslt ${LockstepCuda_cublasLt})
  _lockstep_cuda_target(lockstep_cudnn ${LockstepCuda_cudnn} ${LockstepCuda_CUDNN_INCLUDE_DIR}
    ${LockstepCuda_CUDNN_FRONTEND_INCLUDE_DIR})
  target_link_libraries(lockstep_cudnn INTERFACE ${LockstepCuda_nvrtc})  # cudnn-frontend calls it
  _lockstep_cuda_target(lockstep_nccl ${LockstepCuda_nccl})
endif()
