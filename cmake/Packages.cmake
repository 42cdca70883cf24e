# What is installed and packed.  scripts/package makes the packages.

# tt_install_debug(TARGET): with `cmake --install --component debug`, its debug information as lib/debug/.build-id/XX/REST.debug,
# where debuggers and `traintrace` look for it.
function(tt_install_debug target)
  install(CODE "
    set(file \"$<TARGET_FILE:${target}>\")
    set(objcopy \"${CMAKE_OBJCOPY}\")
    set(readelf \"${CMAKE_READELF}\")
    include(\"${PROJECT_SOURCE_DIR}/cmake/InstallDebug.cmake\")" COMPONENT debug)
endfunction()

# For jobs: the markers of C, and the package of Python where Debian's Python looks for it; scripts/lib/wheel.py puts it where
# pip wants it.
install(FILES include/traintrace.h DESTINATION include COMPONENT runtime)
install(DIRECTORY python/traintrace DESTINATION lib/python3/dist-packages COMPONENT runtime FILES_MATCHING PATTERN "*.py")

# The licence is not decided, and no package says that it is.
set(CPACK_PACKAGE_NAME traintrace)
set(CPACK_PACKAGE_VENDOR "traintrace")
set(CPACK_PACKAGE_CONTACT "the authors of traintrace <root@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "why a training job hangs, runs out of memory or runs slow")
set(CPACK_PACKAGE_DESCRIPTION "Records CUDA and NCCL calls of a training job, and names the rank, the line and the cause when it
hangs.  No licence has been chosen for it yet.")
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL runtime)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
include(CPack)
