# SPDX-License-Identifier: MIT
# bash completion for uext4: commands, options, images, and paths inside images

_uext4_commands='mount umount ls cat stat get put mkdir rm mv ln df extents stats fsck mkfs'

_uext4_options()
{
	case $1 in
	ls) echo '-a -l -R -d -i --json -o --help' ;;
	cat | mv) echo '-o --help' ;;
	stat) echo '-L --json -o --help' ;;
	get | put) echo '-r -o --help' ;;
	mkdir) echo '-p -m -o --help' ;;
	rm) echo '-r -f -o --help' ;;
	ln) echo '-s -o --help' ;;
	df) echo '-h --json -o --help' ;;
	extents) echo '--json -o --help' ;;
	mount) echo '-f -o --help' ;;
	umount | fsck | mkfs) echo '--help' ;;
	stats) echo '--json --help' ;;
	esac
}

_uext4_image_options='partition= offset= sb= journal_path= ro rw noload norecovery replay=memory
	data=ordered data=journal data=writeback data_err=ignore data_err=abort barrier=0 barrier=1 nobarrier
	errors=continue errors=remount-ro errors=panic commit= max_batch_time= journal_async_commit
	cache_size= discard nodiscard delalloc nodelalloc resuid= resgid=
	noatime nodiratime relatime strictatime acl noacl user_xattr nouser_xattr grpid nogrpid'
_uext4_server_options='allow_other allow_root auto_unmount suid nosuid dev nodev exec noexec sync async dirsync
	writeback_cache no_writeback_cache max_threads= spin_us= follow_caller no_follow_caller io_uring'

# The last word of a comma-separated list of mount options; only `mount` has the server's.
_uext4_complete_mount_options()
{
	local command=$1 cur=$2 prefix= words=$_uext4_image_options
	[[ $command == mount ]] && words+=" $_uext4_server_options"
	[[ $cur == *,* ]] && prefix=${cur%,*},
	COMPREPLY=($(compgen -P "$prefix" -W "$words" -- "${cur##*,}"))
	compopt -o nospace
}

# Names in the directory of the image that the word leads to.
_uext4_complete_image_path()
{
	local options=$1 image=$2 cur=$3 dir= name
	[[ $cur == */* ]] && dir=${cur%/*}/
	while IFS= read -r name; do
		[[ $dir$name == "$cur"* ]] && COMPREPLY+=("$dir$name")
	done < <(uext4 ls ${options:+-o "$options"} "$image" "${dir:-/}" 2>/dev/null)
	compopt -o nospace -o filenames
}

_uext4()
{
	local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} i image= options= operands=0
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		COMPREPLY=($(compgen -W "$_uext4_commands --help --version" -- "$cur"))
		return
	fi
	if [[ ${COMP_WORDS[COMP_CWORD - 1]} == -o ]]; then
		_uext4_complete_mount_options "$command" "$cur"
		return
	fi
	if [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$(_uext4_options "$command")" -- "$cur"))
		return
	fi
	for ((i = 2; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-o) options=${COMP_WORDS[++i]} ;;
		-m) ((i++)) ;;
		-*) ;;
		*) ((operands++)) || image=${COMP_WORDS[i]} ;;
		esac
	done
	case $command in
	mount | umount | stats | fsck | mkfs | df) ;;
	put) ;; # what is put is local; where to, the user knows best
	*)
		if ((operands >= 1)); then
			_uext4_complete_image_path "$options" "${image/#\~/$HOME}" "$cur"
			[[ $command == get ]] || return
		fi
		;;
	esac
	COMPREPLY+=($(compgen -f -- "$cur"))
	compopt -o filenames
}

complete -F _uext4 uext4
