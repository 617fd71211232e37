# SPDX-License-Identifier: Apache-2.0

# Instrument everything that is added from here on.
function(dfi_sanitize kind)
	if(kind STREQUAL "address")
		set(flags -fsanitize=address,undefined
			-fno-sanitize-recover=all)
	elseif(kind STREQUAL "thread")
		set(flags -fsanitize=thread)
	elseif(kind STREQUAL "fuzzer")
		set(flags -fsanitize=fuzzer-no-link,address,undefined
			-fno-sanitize-recover=all)
	elseif(NOT kind STREQUAL "")
		message(FATAL_ERROR "DFI_SANITIZE is '${kind}': use address, "
			"thread, fuzzer or nothing")
	endif()
	if(flags)
		# Their reports need functions and lines, not the rest of -g.
		add_compile_options(${flags} -fno-omit-frame-pointer -g1)
		add_link_options(${flags})
	endif()
endfunction()

# The language and the warnings of all code written here.
function(dfi_compile_options target)
	set(werror ${DFI_WERROR})
	if(DFI_SANITIZE)
		# Instrumented code confuses gcc's flow analysis: its warnings
		# about truncation and initialisation are no errors there.
		set(werror OFF)
	endif()
	set_target_properties(${target} PROPERTIES
		C_STANDARD 11
		C_STANDARD_REQUIRED ON
		C_EXTENSIONS OFF)
	target_compile_definitions(${target} PRIVATE
		_GNU_SOURCE)
	target_compile_options(${target} PRIVATE
		-Wall -Wextra -Wpedantic -Wconversion -Wshadow
		$<$<BOOL:${werror}>:-Werror>)
endfunction()

# dfi_protobuf(<variable> <dir> <x.proto>...): generate x.pb-c.c and x.pb-c.h
# into dir and append the sources to the variable.
function(dfi_protobuf variable dir)
	file(MAKE_DIRECTORY ${dir})
	foreach(proto IN LISTS ARGN)
		cmake_path(GET proto STEM stem)
		cmake_path(GET proto PARENT_PATH parent)
		set(outputs ${dir}/${stem}.pb-c.c ${dir}/${stem}.pb-c.h)
		add_custom_command(
			OUTPUT ${outputs}
			COMMAND ${DFI_PROTOC_C} --c_out=${dir}
				-I ${PROJECT_SOURCE_DIR}/${parent}
				${PROJECT_SOURCE_DIR}/${proto}
			DEPENDS ${proto}
			COMMENT "Generating ${stem}.pb-c.c"
			VERBATIM)
		list(APPEND sources ${outputs})
	endforeach()
	# Not written here, so not held to our warnings.
	set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS -w)
	set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# dfi_module(<name> [<library>...]): libdfi-<name>.so, beside libdfi.so, which is
# built with it: the objects of dfi_<name>_objects and src/<...>/module.c.
function(dfi_module name)
	set(target dfi_${name})
	# The .pc files name all of libevent; the library has its core.
	set(libraries ${ARGN} ${DFI_DEPS_LINK_LIBRARIES})
	list(FILTER libraries EXCLUDE REGEX "/libevent\\.so$")
	add_library(${target} MODULE
		${dfi_${name}_module}
		$<TARGET_OBJECTS:${target}_objects>
		$<TARGET_OBJECTS:dfi_module_objects>
		$<FILTER:$<TARGET_OBJECTS:dfi_objects>,INCLUDE,${dfi_helpers}>)
	dfi_compile_options(${target})
	target_include_directories(${target} PRIVATE
		${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
		${dfi_generated_dir})
	target_link_libraries(${target}
		PRIVATE ${libraries} Threads::Threads)
	set(map ${PROJECT_SOURCE_DIR}/cmake/module.map)
	target_link_options(${target} PRIVATE
		-Wl,--version-script=${map} -Wl,--as-needed -Wl,-z,relro,-z,now
		$<$<STREQUAL:${DFI_SANITIZE},>:-Wl,-z,defs>)
	set_target_properties(${target} PROPERTIES
		PREFIX ""
		OUTPUT_NAME libdfi-${name}
		C_VISIBILITY_PRESET hidden
		LINK_DEPENDS ${map}
		LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
	add_dependencies(dfi ${target})
endfunction()

# dfi_program(<name> [INSTALL] SOURCES <file>... [LIBRARIES <library>...]):
# a program that uses the public interface and common/ only, in build/bin.
function(dfi_program name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "INSTALL" "" "SOURCES;LIBRARIES")
	add_executable(${name} ${arg_SOURCES})
	dfi_compile_options(${name})
	target_compile_definitions(${name} PRIVATE
		DFI_VERSION="${PROJECT_VERSION}") # what it was built as
	target_link_libraries(${name} PRIVATE dfi_common dfi ${arg_LIBRARIES}
		Threads::Threads)
	set_target_properties(${name} PROPERTIES
		RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin
		INSTALL_RPATH "${dfi_install_rpath}")
	if(arg_INSTALL AND DFI_INSTALL)
		install(TARGETS ${name})
	endif()
endfunction()

# dfi_late_git2(): the library late_git2, with the name of the libgit2 that Criterion
# needs, so that programs which link it find it instead. If that can't be told, there
# is none, and tests start more slowly.
function(dfi_late_git2)
	execute_process(COMMAND ldd ${CRITERION_LINK_LIBRARIES}
		OUTPUT_VARIABLE libraries ERROR_QUIET)
	if(NOT libraries MATCHES "libgit2\\.so\\.([0-9.]+) => (/[^ ]+)")
		return()
	endif()
	add_library(late_git2 SHARED ${PROJECT_SOURCE_DIR}/tests/late_git2.c)
	dfi_compile_options(late_git2)
	target_compile_definitions(late_git2 PRIVATE DFI_GIT2="${CMAKE_MATCH_2}")
	set_target_properties(late_git2 PROPERTIES
		OUTPUT_NAME git2
		SOVERSION ${CMAKE_MATCH_1}
		LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/lib)
endfunction()

# dfi_test(<kind> <name> [SOURCES <file>...] [LIBRARIES <library>...]):
# tests/<kind>/<name>.c, plus SOURCES, as the CTest test <kind>.<name> with the
# label <kind>. The kind says what it links:
#   unit    internals (dfi_testing); Criterion
#   flow    libdfi.so and its public headers; Criterion
#   proc    as flow, and may start tests/proc/worker.c and the programs
#   consensus, linearizability
#           files of the tree, no library; Criterion
#   stress  internals; a main() that exits with 0, 1 or 77 (skipped)
#   abi     libdfi.so and its public headers; a main() as in stress
# Criterion does not run under ThreadSanitizer, so there only stress and abi
# tests are built.
function(dfi_test kind name)
	cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;LIBRARIES")
	set(criterion_kinds unit flow proc consensus linearizability)
	if(DFI_SANITIZE STREQUAL "thread" AND kind IN_LIST criterion_kinds)
		return()
	endif()

	dfi_test_executable(${kind} ${name}
		SOURCES ${arg_SOURCES} LIBRARIES ${arg_LIBRARIES})
	set(target ${kind}_${name})
	set(arguments "")
	if(kind IN_LIST criterion_kinds)
		target_link_libraries(${target} PRIVATE PkgConfig::CRITERION)
		if(TARGET late_git2)
			target_link_libraries(${target} PRIVATE
				-Wl,--push-state,--no-as-needed late_git2
				-Wl,--pop-state)
		endif()
		target_link_libraries(${target} PRIVATE runner_leaks)
		# Its default output does not mention skipped tests.
		set(arguments --verbose)
	endif()
	add_test(NAME ${kind}.${name} COMMAND ${target} ${arguments})
	set_tests_properties(${kind}.${name} PROPERTIES
		LABELS ${kind}
		TIMEOUT ${dfi_test_timeout}
		SKIP_RETURN_CODE 77
		ENVIRONMENT "${dfi_test_environment}")
	if(kind STREQUAL "stress")
		# Its threads are to meet.
		set_tests_properties(${kind}.${name} PROPERTIES RUN_SERIAL ON)
	endif()
	if(kind IN_LIST criterion_kinds)
		# A program that ran none of its tests did not pass.
		set_tests_properties(${kind}.${name} PROPERTIES
			SKIP_REGULAR_EXPRESSION "Synthesis: Tested: 0 ")
	endif()
endfunction()

# What all code of tests is compiled with. In an optimised build that is most of the
# code: reports of faults need its functions and lines, not the rest of -g, and
# -O1 takes a third less time to compile. Three warnings of gcc are wrong at -O1;
# checks.clang has clang's.
function(dfi_test_options target)
	dfi_compile_options(${target})
	target_compile_options(${target} PRIVATE
		-UNDEBUG $<$<CONFIG:Release>:-g1 -O1
			-Wno-array-bounds -Wno-maybe-uninitialized -Wno-stringop-overflow>)
endfunction()

# dfi_test_object(<name> <source>... [LIBRARIES <library>...]): sources of several test
# programs, compiled once; the programs name it under LIBRARIES. The sources include
# the public headers, Criterion's, and those of LIBRARIES.
function(dfi_test_object name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES")
	add_library(${name} OBJECT ${arg_UNPARSED_ARGUMENTS})
	dfi_test_options(${name})
	target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
	target_include_directories(${name} SYSTEM
		PRIVATE ${CRITERION_INCLUDE_DIRS})
	target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
endfunction()

# dfi_fuzz(<name> [SOURCES <file>...]): the fuzz target tests/fuzz/fuzz_<name>.c,
# plus SOURCES. It replays its corpus, tests/fuzz/corpus/<name>, as the CTest test
# fuzz.replay_<name>; in a build with DFI_SANITIZE=fuzzer (clang) it is a fuzzer
# instead, which scripts/fuzz runs.
function(dfi_fuzz name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES")
	if(DFI_SANITIZE STREQUAL "thread")
		return()
	endif()
	set(target fuzz_${name})
	add_executable(${target} fuzz/fuzz_${name}.c ${arg_SOURCES})
	dfi_compile_options(${target})
	target_link_libraries(${target} PRIVATE dfi_testing)
	set_target_properties(${target} PROPERTIES
		RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/fuzz)
	if(DFI_SANITIZE STREQUAL "fuzzer")
		target_link_options(${target} PRIVATE -fsanitize=fuzzer)
		return()
	endif()
	target_sources(${target} PRIVATE fuzz/replay.c)
	add_test(NAME fuzz.replay_${name} COMMAND ${target}
		${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name})
	set_tests_properties(fuzz.replay_${name} PROPERTIES
		LABELS fuzz
		TIMEOUT ${dfi_test_timeout}
		ENVIRONMENT "${dfi_test_environment}")
endfunction()

# dfi_test_program(<kind> <name> [SOURCES <file>...] [LIBRARIES <library>...]):
# tests/<kind>/<name>.c, plus SOURCES, as a program that tests of that kind
# start; not a test itself.
function(dfi_test_program kind name)
	cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;LIBRARIES")
	if(DFI_SANITIZE STREQUAL "thread" AND NOT kind MATCHES
	    "stress|chaos|consensus|linearizability")
		return()
	endif()
	dfi_test_executable(${kind} ${name}
		SOURCES ${arg_SOURCES} LIBRARIES ${arg_LIBRARIES})
endfunction()

# What the executables of one kind of test have in common.
function(dfi_test_executable kind name)
	cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;LIBRARIES")
	set(target ${kind}_${name})
	add_executable(${target} ${kind}/${name}.c ${arg_SOURCES})
	dfi_test_options(${target})
	if(kind STREQUAL "unit" OR kind STREQUAL "stress")
		target_link_libraries(${target} PRIVATE dfi_testing)
	elseif(kind MATCHES "^(consensus|linearizability)$")
		target_include_directories(${target} PRIVATE
			${PROJECT_SOURCE_DIR})
	elseif(kind STREQUAL "open")
		target_include_directories(${target} PRIVATE
			${PROJECT_SOURCE_DIR}/src)
	else()
		target_link_libraries(${target} PRIVATE dfi Threads::Threads)
	endif()
	target_link_libraries(${target} PRIVATE ${arg_LIBRARIES})
	if(kind STREQUAL "proc")
		# Where the programs are that it may start.
		target_compile_definitions(${target} PRIVATE
			DFI_FLOOD="${PROJECT_BINARY_DIR}/tests/proc/flood"
			DFI_MEETING="${PROJECT_BINARY_DIR}/tests/proc/meeting"
			DFI_NUMBERING="${PROJECT_BINARY_DIR}/tests/proc/numbering"
			DFI_WORKER="${PROJECT_BINARY_DIR}/tests/proc/worker"
			DFI_BIN_DIR="${PROJECT_BINARY_DIR}/bin")
	elseif(kind STREQUAL "chaos")
		target_compile_definitions(${target} PRIVATE
			DFI_CHAOS_WORKER="${PROJECT_BINARY_DIR}/tests/chaos/worker"
			DFI_BIN_DIR="${PROJECT_BINARY_DIR}/bin")
	endif()
	set_target_properties(${target} PROPERTIES
		OUTPUT_NAME ${name}
		RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${kind})
endfunction()

# dfi_check(<kind> <name> [SCRIPT <script>] [<argument>...]): the script
# tests/<kind>/<name>.sh, or <script>.sh, which looks at the source tree or at
# what was built, as the CTest test <kind>.<name>. It exits with 0, 1 or 77
# (skipped).
function(dfi_check kind name)
	cmake_parse_arguments(PARSE_ARGV 2 arg "" "SCRIPT" "")
	if(NOT arg_SCRIPT)
		set(arg_SCRIPT ${name})
	endif()
	add_test(NAME ${kind}.${name}
		COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/${kind}/${arg_SCRIPT}.sh
			${arg_UNPARSED_ARGUMENTS}
		WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
	set_tests_properties(${kind}.${name} PROPERTIES
		LABELS ${kind}
		TIMEOUT ${dfi_test_timeout}
		SKIP_RETURN_CODE 77)
endfunction()

# Write DIR/module_interface.h: MODULE_INTERFACE, a hash of the headers of these
# folders, which a module and the library have to share.
function(dfi_module_interface dir)
	set(all "")
	foreach(folder IN LISTS ARGN)
		file(GLOB headers CONFIGURE_DEPENDS
			${PROJECT_SOURCE_DIR}/${folder}/*.h)
		set_property(DIRECTORY APPEND PROPERTY
			CMAKE_CONFIGURE_DEPENDS ${headers})
		foreach(header IN LISTS headers)
			file(SHA256 ${header} hash)
			string(APPEND all ${hash})
		endforeach()
	endforeach()
	string(SHA256 all "${all}")
	string(SUBSTRING ${all} 0 8 all)
	file(CONFIGURE OUTPUT ${dir}/module_interface.h
		CONTENT "#define MODULE_INTERFACE 0x${all}u\n")
endfunction()
