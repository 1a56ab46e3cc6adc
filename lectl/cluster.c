/*
 * lectl/cluster.c
 *
 * Debian's clusters: where the server of "17/main" listens.  We read its
 * configuration ourselves, so no server package is needed.
 */
#include "lectl.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONF_ROOT	"/etc/postgresql"
#define MAX_DEPTH	10			/* nested includes, as in the server */

/* The settings we need, NULL if not set. */
typedef struct Conf
{
	char	   *port;
	char	   *directories;
	char	   *data;
} Conf;

static void read_conf(const char *path, Conf *conf, int depth);

/* ---- configuration files ---- */

/*
 * The next name or value of a line, NULL if there is none.  A quoted value
 * escapes a quote by doubling it or by a backslash.
 */
static char *
next_word(const char **line)
{
	const char *from = *line + strspn(*line, " \t\r\n=");
	char	   *word = pg_strdup(from);
	char	   *to = word;

	if (*from != '\'')
	{
		word[strcspn(word, " \t\r\n=#'")] = '\0';
		*line = from + strlen(word);
		return word[0] != '\0' ? word : NULL;
	}
	for (from++; *from != '\0'; *to++ = *from++)
		if ((*from == '\\' && from[1] != '\0') ||
			(*from == '\'' && from[1] == '\''))
			from++;
		else if (*from == '\'')
			break;
	*to = '\0';
	*line = *from == '\'' ? from + 1 : from;
	return word;
}

/* Names are relative to the directory of the including file. */
static char *
beside(const char *path, const char *name)
{
	char		full[MAXPGPATH];

	if (is_absolute_path(name))
		return pg_strdup(name);
	strlcpy(full, path, sizeof(full));
	get_parent_directory(full);
	return psprintf("%s/%s", full, name);
}

static int
is_conf(const struct dirent *entry)
{
	size_t		len = strlen(entry->d_name);

	return entry->d_name[0] != '.' && len > 5 &&
		strcmp(entry->d_name + len - 5, ".conf") == 0;
}

static int
by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* In the server's order: the last value counts. */
static void
read_conf_dir(const char *path, Conf *conf, int depth)
{
	struct dirent **entries;
	int			n = scandir(path, &entries, is_conf, by_name);

	if (n < 0 && errno != ENOENT)
		pg_log_warning("could not open directory \"%s\": %m", path);
	for (int i = 0; i < n; i++)
		read_conf(psprintf("%s/%s", path, entries[i]->d_name), conf, depth);
}

static void
read_setting(const char *path, const char *line, Conf *conf, int depth)
{
	const char *name = next_word(&line);
	char	   *value = name && name[0] != '#' ? next_word(&line) : NULL;

	if (value == NULL)
		return;
	if (pg_strcasecmp(name, "port") == 0)
		conf->port = value;
	else if (pg_strcasecmp(name, "unix_socket_directories") == 0)
		conf->directories = value;
	else if (pg_strcasecmp(name, "data_directory") == 0)
		conf->data = value;
	else if (pg_strcasecmp(name, "include") == 0 ||
			 pg_strcasecmp(name, "include_if_exists") == 0)
		read_conf(beside(path, value), conf, depth + 1);
	else if (pg_strcasecmp(name, "include_dir") == 0)
		read_conf_dir(beside(path, value), conf, depth + 1);
}

/*
 * An unreadable file is reported and skipped: most likely it sets something
 * else.  A missing file is no error.
 */
static void
read_conf(const char *path, Conf *conf, int depth)
{
	FILE	   *file = depth <= MAX_DEPTH ? fopen(path, "r") : NULL;
	char	   *line = NULL;
	size_t		room = 0;

	if (file == NULL)
	{
		if (depth > MAX_DEPTH)
			pg_log_warning("file \"%s\" is included too deeply", path);
		else if (errno != ENOENT)
			pg_log_warning("could not open file \"%s\": %m", path);
		return;
	}
	while (getline(&line, &room, file) >= 0)
		read_setting(path, line, conf, depth);
	free(line);
	fclose(file);
}

/*
 * ALTER SYSTEM writes into the data directory, which few users can read; all
 * others do without its settings.
 */
static void
read_auto_conf(Conf *conf)
{
	char	   *path = psprintf("%s/postgresql.auto.conf",
								conf->data ? conf->data : "");

	if (access(path, R_OK) == 0)
		read_conf(path, conf, 1);
}

/* ---- the cluster ---- */

static const char *
conf_root(void)
{
	const char *root = getenv("PG_CLUSTER_CONF_ROOT");

	return root != NULL && root[0] != '\0' ? root : CONF_ROOT;
}

/* The first of the list; without a socket the server has TCP only. */
static char *
socket_directory(const char *list)
{
	char	   *first;

	if (list == NULL)
		return DEFAULT_PGSOCKET_DIR;
	list += strspn(list, " \t");
	if (*list == '"')
	{
		first = pg_strdup(list + 1);
		first[strcspn(first, "\"")] = '\0';
		return first;
	}
	first = pg_strdup(list);
	first[strcspn(first, ",")] = '\0';
	while (first[0] != '\0' && strchr(" \t", first[strlen(first) - 1]) != NULL)
		first[strlen(first) - 1] = '\0';
	return first[0] != '\0' ? first : "localhost";
}

static bool
is_port(const char *text)
{
	size_t		digits = strspn(text, "0123456789");
	int			port = digits <= 5 ? atoi(text) : 0;

	return text[digits] == '\0' && port >= 1 && port <= 65535;
}

static void
find_local(const char *cluster, char **host, char **port)
{
	char	   *path = psprintf("%s/%s/postgresql.conf", conf_root(), cluster);
	Conf		conf = {0};

	if (access(path, R_OK) != 0)
	{
		int			why = errno;
		bool		missing = why == ENOENT || why == ENOTDIR;

		pg_log_error(missing ? "cluster \"%s\" does not exist" :
					 "cluster \"%s\" cannot be read", cluster);
		pg_log_error_detail("Could not open file \"%s\": %s.", path,
							strerror(why));
		end_before(missing ? LECTL_USAGE : LECTL_REFUSED);
	}
	read_conf(path, &conf, 0);
	read_auto_conf(&conf);
	*host = socket_directory(conf.directories);
	*port = conf.port ? conf.port : DEF_PGPORT_STR;
	if (!is_port(*port))
	{
		pg_log_error("cluster \"%s\" has no valid port: \"%s\"", cluster, *port);
		end_before(LECTL_REFUSED);
	}
}

/* HOST:PORT or HOST:, for a cluster of another machine. */
static bool
find_remote(const char *name, char **host, char **port)
{
	const char *colon = strrchr(name, ':');

	if (colon == NULL || colon == name ||
		(colon[1] != '\0' && !is_port(colon + 1)))
		return false;
	*host = psprintf("%.*s", (int) (colon - name), name);
	*port = colon[1] != '\0' ? pg_strdup(colon + 1) : DEF_PGPORT_STR;
	return true;
}

/* A name must not lead out of its directory. */
static bool
is_cluster_name(const char *name)
{
	return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL &&
		strchr(name, ':') == NULL;
}

static void
find_cluster(const char *cluster, const char *source, char **host, char **port)
{
	size_t		version = strspn(cluster, "0123456789.");
	bool		versioned = cluster[0] >= '0' && cluster[0] <= '9' &&
		cluster[version] == '/';

	if (versioned && find_remote(cluster + version + 1, host, port))
		return;
	if (versioned && is_cluster_name(cluster + version + 1))
	{
		find_local(cluster, host, port);
		return;
	}
	pg_log_error("invalid value of %s: \"%s\"", source, cluster);
	pg_log_error_hint("It is VERSION/NAME or VERSION/HOST:PORT.");
	end_before(LECTL_USAGE);
}

/* ---- which ---- */

static bool
environment_names_server(void)
{
	return getenv("PGHOST") != NULL || getenv("PGHOSTADDR") != NULL ||
		getenv("PGSERVICE") != NULL;
}

/*
 * Debian's order, that of pg_wrapper(1): a host of the command line,
 * --cluster, a host of the environment, PGCLUSTER.  Without a cluster, libpq's
 * defaults apply.
 */
void
take_cluster(Options *options)
{
	const char *cluster = options->cluster;
	const char *source = "--cluster";
	char	   *port = NULL;

	if (options->host != NULL || string_names(options, "host") ||
		string_names(options, "hostaddr"))
		return;
	if (cluster == NULL && !environment_names_server() &&
		!string_names(options, "service"))
	{
		cluster = getenv("PGCLUSTER");
		source = "PGCLUSTER";
	}
	if (cluster == NULL || (options->cluster == NULL && cluster[0] == '\0'))
		return;
	find_cluster(cluster, source, &options->host, &port);
	if (options->port == NULL)
		options->port = port;
}
