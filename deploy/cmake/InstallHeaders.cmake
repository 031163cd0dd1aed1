# Run by cmake --install with SOURCE_DIR and HEADER_FOLDER: the headers that a program, a plugin, a model, a data set or an
# op of one's own begins with, and what these include.
cmake_policy(VERSION 3.25)
set(wanted
  runtime/commands/commands.h  # a program: train_main
  runtime/plugin/plugin.h      # a plugin: LOCKSTEP_PLUGIN, Registry
  model/define_op.h            # models, ops, gradients
  kernels/external_op.h
  kernels/pointwise.h          # for gradients that built-in kernels compute
  kernels/sum_to.h
  kernels/cpu/parallel.h
  kernels/base/error.h
  kernels/base/version.h)

set(public_headers)
while(wanted)
  list(POP_FRONT wanted header)
  list(APPEND public_headers ${header})
  file(STRINGS ${SOURCE_DIR}/${header} includes REGEX "^ *# *include \"")
  foreach(line ${includes})
    string(REGEX REPLACE "^[^\"]*\"([^\"]+)\".*$" "\\1" included "${line}")
    if(NOT included IN_LIST public_headers AND NOT included IN_LIST wanted)
      list(APPEND wanted ${included})
    endif()
  endforeach()
endwhile()

foreach(header ${public_headers})
  get_filename_component(folder ${header} DIRECTORY)
  file(INSTALL ${SOURCE_DIR}/${header} DESTINATION ${HEADER_FOLDER}/${folder})
endforeach()
