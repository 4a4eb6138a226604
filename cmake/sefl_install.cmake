# make install: program, headers, both libraries, pkg-config file, man page, shell completion.
file(RELATIVE_PATH up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(private "") # what a program needs that links libsefl.a: the shared libraries that it uses itself
if(NOT SEFL_CORE_ONLY)
    set(private " ${cblas_library}")
    foreach(lib ${gmp_LIBRARIES} ${libcrypto_LIBRARIES} ${sodium_LIBRARIES} ${jansson_LIBRARIES} ${yaml_LIBRARIES}
        ${sqlite_LIBRARIES} ${gnutls_LIBRARIES} ${microhttpd_LIBRARIES} ${curl_LIBRARIES})
        string(APPEND private " -l${lib}")
    endforeach()
endif()
configure_file(${CMAKE_SOURCE_DIR}/cmake/sefl.pc.in ${CMAKE_BINARY_DIR}/sefl.pc @ONLY)
install(TARGETS sefl sefl_shared)
install(FILES ${CMAKE_BINARY_DIR}/libsefl.a DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/sefl TYPE INCLUDE)
install(FILES ${CMAKE_BINARY_DIR}/sefl.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The man page and the completion are written by the program itself, from its command table.
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/sefl.1 ${CMAKE_BINARY_DIR}/sefl.bash
    COMMAND $<TARGET_FILE:sefl> help --man > ${CMAKE_BINARY_DIR}/sefl.1
    COMMAND $<TARGET_FILE:sefl> help --completion > ${CMAKE_BINARY_DIR}/sefl.bash
    DEPENDS sefl VERBATIM)
add_custom_target(manual ALL DEPENDS ${CMAKE_BINARY_DIR}/sefl.1 ${CMAKE_BINARY_DIR}/sefl.bash)
install(FILES ${CMAKE_BINARY_DIR}/sefl.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${CMAKE_BINARY_DIR}/sefl.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME sefl)

# Units of the three roles, with the program's real place in them; their users and folders.
if(NOT SEFL_CORE_ONLY)
    foreach(unit sefl-aggregator sefl-csp sefl-client@)
        file(READ ${CMAKE_SOURCE_DIR}/packaging/systemd/${unit}.service text)
        string(REPLACE "@PREFIX@" "${CMAKE_INSTALL_PREFIX}" text "${text}")
        file(WRITE ${CMAKE_BINARY_DIR}/systemd/${unit}.service "${text}")
    endforeach()
    install(DIRECTORY ${CMAKE_BINARY_DIR}/systemd/ DESTINATION lib/systemd/system
        FILES_MATCHING PATTERN "*.service")
    install(FILES ${CMAKE_SOURCE_DIR}/packaging/systemd/sefl-client-gpu.conf
        ${CMAKE_SOURCE_DIR}/packaging/systemd/sefl-client-trainer.conf
        DESTINATION ${CMAKE_INSTALL_DATADIR}/sefl)
    foreach(kind sysusers tmpfiles)
        install(FILES ${CMAKE_SOURCE_DIR}/packaging/systemd/sefl.${kind} DESTINATION lib/${kind}.d RENAME sefl.conf)
    endforeach()
endif()
