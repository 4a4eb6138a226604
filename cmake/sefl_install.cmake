# make install: programs, headers, both libraries, pkg-config file, man pages, shell completion, units. A component is
# what one Debian package contains (packaging/debian); the GPU plugin (component gpu) is in none.
file(RELATIVE_PATH up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(private "") # what a program needs that links libsefl.a: the shared libraries that it uses itself
if(NOT SEFL_CORE_ONLY)
    set(private " ${cblas_library}")
    foreach(lib ${gmp_LIBRARIES} ${sodium_LIBRARIES} ${yaml_LIBRARIES}
        ${sqlite_LIBRARIES} ${pq_LIBRARIES} ${gnutls_LIBRARIES} ${microhttpd_LIBRARIES} ${curl_LIBRARIES})
        string(APPEND private " -l${lib}")
    endforeach()
endif()
configure_file(${CMAKE_SOURCE_DIR}/cmake/sefl.pc.in ${CMAKE_BINARY_DIR}/sefl.pc @ONLY)
install(TARGETS sefl COMPONENT program)
install(TARGETS sefl-lab COMPONENT lab)
install(TARGETS sefl_shared LIBRARY COMPONENT library NAMELINK_COMPONENT devel)
install(FILES ${CMAKE_BINARY_DIR}/libsefl.a DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT devel)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/sefl TYPE INCLUDE COMPONENT devel)
install(FILES ${CMAKE_BINARY_DIR}/sefl.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT devel)

# The programs write the man pages, the completion (of both) and the servers' settings files themselves, from their tables.
set(made ${CMAKE_BINARY_DIR}/made)
set(make_files COMMAND sefl help --man ${made}/man COMMAND sefl-lab help --man ${made}/man-lab
    COMMAND sefl help --completion > ${made}/sefl.bash)
if(NOT SEFL_CORE_ONLY)
    foreach(server aggregator csp)
        list(APPEND make_files COMMAND sefl init ${made}/${server}.yml --for ${server} --unit --force)
    endforeach()
endif()
add_custom_command(OUTPUT ${made}/sefl.bash
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${made}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${made}
    ${make_files}
    DEPENDS sefl sefl-lab VERBATIM)
add_custom_target(manual ALL DEPENDS ${made}/sefl.bash)
foreach(section 1 5)
    install(DIRECTORY ${made}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT program
        FILES_MATCHING PATTERN "*.${section}")
endforeach()
install(DIRECTORY ${made}/man-lab/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT lab)
install(FILES ${made}/sefl.bash COMPONENT program
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME sefl)

# Dashboard and alerts for those who monitor a server (docs/OPERATING.md).
if(NOT SEFL_CORE_ONLY)
    install(FILES ${CMAKE_SOURCE_DIR}/packaging/grafana/sefl.json
        ${CMAKE_SOURCE_DIR}/packaging/prometheus/sefl.rules.yml COMPONENT program
        DESTINATION ${CMAKE_INSTALL_DATADIR}/sefl/monitoring)
endif()

# Units of the three roles, with the program's real place in them; their users and folders; a server's settings file to
# copy to /etc/sefl.
if(NOT SEFL_CORE_ONLY)
    set(systemd ${CMAKE_SOURCE_DIR}/packaging/systemd)
    foreach(role aggregator csp client)
        set(unit sefl-${role}.service)
        if(role STREQUAL client)
            set(unit sefl-client@.service)
            install(FILES ${systemd}/sefl-client-gpu.conf ${systemd}/sefl-client-trainer.conf COMPONENT client
                DESTINATION ${CMAKE_INSTALL_DATADIR}/sefl)
        else()
            install(FILES ${made}/${role}.yml DESTINATION ${CMAKE_INSTALL_DATADIR}/sefl COMPONENT ${role})
        endif()
        file(READ ${systemd}/${unit} text)
        string(REPLACE "@PREFIX@" "${CMAKE_INSTALL_PREFIX}" text "${text}")
        file(WRITE ${CMAKE_BINARY_DIR}/systemd/${unit} "${text}")
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${systemd}/${unit})
        install(FILES ${CMAKE_BINARY_DIR}/systemd/${unit} DESTINATION lib/systemd/system COMPONENT ${role})
        foreach(kind sysusers tmpfiles)
            install(FILES ${systemd}/sefl-${role}.${kind} DESTINATION lib/${kind}.d RENAME sefl-${role}.conf
                COMPONENT ${role})
        endforeach()
    endforeach()
endif()
