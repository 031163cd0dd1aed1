# cmake --install: lockstep::lockstep and lockstep::plugin with the public headers for find_package(lockstep), and the
# programs. Included last, when all targets are known.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
get_property(libraries GLOBAL PROPERTY LOCKSTEP_LIBRARIES)
list(REMOVE_ITEM libraries lockstep_launcher)  # its program is what others use
if(BUILD_SHARED_LIBS)
  set(libraries lockstep lockstep_plugin lockstep_version)  # the version is each user's own
endif()
install(TARGETS ${libraries} lockstep_policy EXPORT lockstep-targets DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT lockstep-targets NAMESPACE lockstep:: DESTINATION ${package_dir})

install(CODE "set(SOURCE_DIR \"${PROJECT_SOURCE_DIR}\")
set(HEADER_FOLDER \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/lockstep\")")
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/InstallHeaders.cmake)

foreach(program launch trainer)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

foreach(page LICENSE README.md CHANGELOG.md)
  install(FILES ${PROJECT_SOURCE_DIR}/${page} DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
endforeach()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/lockstep-config.cmake.in
  ${PROJECT_BINARY_DIR}/lockstep-config.cmake INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lockstep-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lockstep-config.cmake ${PROJECT_BINARY_DIR}/lockstep-config-version.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindOneDNN.cmake ${CMAKE_CURRENT_LIST_DIR}/FindSPNG.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindUTF8PROC.cmake DESTINATION ${package_dir})
