# Each target does its own set-up in .venv; all it needs is Python 3.11 with venv.

# The distribution's interpreter first: it is built with profile-guided optimization, which one compiled from
# source lacks by default, and needs a fifth less processor time.
PYTHON = $(firstword $(foreach python,/usr/bin/python3.11 python3.11 /usr/bin/python3 python3,$(shell \
	$(python) -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $(python))))
VENV := .venv
comma := ,
INSTALLED := $(VENV)/.installed
SOURCES := setup.cfg pyproject.toml constraints.txt

# The tests start hundreds of processes; each would compile the package anew where this is set to anything.
export PYTHONDONTWRITEBYTECODE :=
# Each worker would look for constants in all modules anew.
export HYPOTHESIS_STORAGE_DIRECTORY := $(CURDIR)/.hypothesis

.PHONY: demo demo-pipeline test test-quick soak soak-store soak-servers crash faults chaos simulate standby-kills bridge-chaos bridge-soak shadow-kills drain stream sink cluster spark-versions estate-jobs operator-day fuzz mutants lint docs web-assets screenshots installation hooks man deb deb-test events changelog bench bench-goals clean

# Two queue managers exchange messages as real processes; status 0 only if every promise held.
demo: $(INSTALLED)
	$(VENV)/bin/python examples/demo.py

# The jobs on Spark find what was done to fifty thousand messages; reports with plots in _demo_pipeline.
demo-pipeline: $(INSTALLED)
	$(VENV)/bin/python examples/demo_pipeline.py

# A coroutine that was never awaited is only a RuntimeWarning; here it fails its test.  So many tests run at once:
# two more than two cores, as many wait for processes that they have started.  Their files are in memory, where
# there is enough of it; with FILES= they are on the disk.
JOBS ?= 4
FILES ?= --in-memory
test: $(INSTALLED)
	PYTHONWARNINGS=error::RuntimeWarning $(VENV)/bin/python -m tests.runner $(FILES) --jobs $(JOBS) tests

# The pure cores alone: no processes, no sockets, no Spark.
QUICK := tests.wire tests.structures tests.windows tests.toml tests.queues tests.session tests.transfer tests.membership tests.routing tests.discovery
test-quick: $(INSTALLED)
	PYTHONWARNINGS=error::RuntimeWarning $(VENV)/bin/python -m twisted.trial --jobs 2 \
		--temp-directory=_trial_temp_quick $(QUICK)

# Three hundred kills of a server, a hundred of a broker and six hundred histories of one, three hundred kills of a
# bare store, the order of answers and forced writes, and four thousand power cuts, of all of which the tests try a
# sample: ten minutes or more. It prints what it has tried.
crash: $(INSTALLED)
	MSMQ_CRASH=1 $(VENV)/bin/python -W error::RuntimeWarning -m twisted.trial \
		--temp-directory=_trial_temp_crash tests.storage.sqlite.test_sqlite_crash tests.storage.log.test_crash tests.storage.log.test_power_cut \
		tests.storage.postgresql.test_postgresql_crash tests.storage.postgresql.test_postgresql_history \
		tests.storage.sqlite.test_sqlite_history tests.storage.log.test_history tests.storage.migration.test_killed tests.faults.test_kills \
		tests.faults.test_order tests.faults.test_power_cut tests.broker.test_kills \
		tests.broker.test_any_history

# Each call of two lives that fails in each way, and some of those of a third, and ten thousand changed bits of
# each store: most of an hour and more.
faults: $(INSTALLED)
	MSMQ_CRASH=1 $(VENV)/bin/python -W error::RuntimeWarning -m twisted.trial \
		--temp-directory=_trial_temp_faults tests.faults.test_failing_system \
		tests.storage.log.test_read_only_remount tests.storage.log.test_scrubbing tests.storage.sqlite.test_sqlite_flips \
		tests.storage.postgresql.test_postgresql_damage

# Thousands of simulated networks, enterprises and histories of queue managers, others each time, then a tenth as
# many examples of each other test that draws what it tries, and a hundredth of each job on Spark: an hour and more.
# The suite has a sample of each.
SOAK ?= $(or $(MSMQ_SOAK),3000)
soak: $(INSTALLED)
	MSMQ_SOAK=$(SOAK) $(VENV)/bin/python -W error::RuntimeWarning -m twisted.trial \
		--temp-directory=_trial_temp_soak tests.nodes.test_any_network tests.nodes.routes.test_any_gates \
		tests.manager.test_any_history tests.manager.applications.test_any_keys tests.routing.test_any_enterprise
	MSMQ_SOAK=$$(($(SOAK) / 10)) $(VENV)/bin/python -W error::RuntimeWarning -m twisted.trial \
		--temp-directory=_trial_temp_soak_examples $(sort $(shell grep -rlE '@given|import examples|RuleBasedStateMachine' tests \
		--include='test_*.py' | grep -v '^tests/pipeline/jobs'))
	MSMQ_SOAK=$$(($(SOAK) / 100)) $(VENV)/bin/python -W error::RuntimeWarning -m twisted.trial \
		--temp-directory=_trial_temp_soak_jobs tests.pipeline.jobs

# SIMULATE estates of queue managers, each with every fault under a seed of its own, in JOBS processes: ten thousand
# in ten minutes on two cores.  FIRST is the first seed, by default another each time; a seed that fails is shrunk,
# and printed as the command that repeats it.
SIMULATE ?= 10000
simulate: $(INSTALLED)
	$(VENV)/bin/python -m tests.simulation --runs $(SIMULATE) --jobs $(JOBS) $(if $(FIRST),--first $(FIRST))

# Mutations of rules, which the tests that cite the rule have to notice, and random ones of the cores.
MUTANTS ?= 40
mutants: $(INSTALLED)
	$(VENV)/bin/python -m tests.mutants --random $(MUTANTS)

# Two queue managers on the record log at half of their capacity: memory, files, descriptors and latency at 10, 60
# and 120 minutes.  MINUTES is how long.
MINUTES ?= 120
soak-store: $(INSTALLED)
	$(VENV)/bin/python bench/soak_store.py --minutes $(MINUTES)

# Three servers, of which one is a relay, under load; what they use is sampled, and compared after a drain.  MINUTES
# is how long, an hour by default.
soak-servers: $(INSTALLED)
	$(VENV)/bin/python -m tests.soak_servers.soak --minutes $(if $(filter command line environment,$(origin MINUTES)),$(MINUTES),60)

# An active server and its standby: 200 faults under a sender, then every accepted message is counted.
standby-kills: $(INSTALLED)
	MSMQ_STANDBY_KILLS=$${MSMQ_STANDBY_KILLS:-200} MSMQ_STANDBY_LEASE=$${MSMQ_STANDBY_LEASE:-10} \
		$(VENV)/bin/python -W error::RuntimeWarning -m twisted.trial \
		--temp-directory=_trial_temp_standby tests.standby.test_campaign

# Two real servers, and three with a relay and a store of each kind, that are killed and cut off while they send to
# each other: minutes.  What applications saw is a history that tests.history_checker judges.
chaos: $(INSTALLED)
	MSMQ_CHAOS=$${MSMQ_CHAOS:-10000} $(VENV)/bin/python -W error::RuntimeWarning -m twisted.trial \
		--temp-directory=_trial_temp_chaos tests.faults.test_chaos tests.faults.test_relay

# A broker and two queue managers with routes of the bridge, all of them killed while messages pass: AMQP 0-9-1,
# AMQP 1.0 and Kafka's mock cluster, ten minutes each.
bridge-chaos: $(INSTALLED)
	MSMQ_BRIDGE_KILLS=$${MSMQ_BRIDGE_KILLS:-100} $(VENV)/bin/python -W error::RuntimeWarning -m twisted.trial \
		--temp-directory=_trial_temp_bridge tests.bridge_service.test_kills tests.bridge_service.kafka.test_kills

# Routes inside two queue managers and of a separate bridge: memory, descriptors and counts.  MINUTES is how long.
bridge-soak: $(INSTALLED)
	MSMQ_BRIDGE_SOAK=$${MINUTES:-60} $(VENV)/bin/python -W error::RuntimeWarning -m twisted.trial \
		--temp-directory=_trial_temp_bridge_soak tests.bridge_service.test_soak

# A server with a shadow that is killed while messages arrive.
shadow-kills: $(INSTALLED)
	MSMQ_SHADOW_KILLS=$${MSMQ_SHADOW_KILLS:-100} $(VENV)/bin/python -W error::RuntimeWarning -m twisted.trial \
		--temp-directory=_trial_temp_shadow tests.shadow_service.test_kills

# A drain of 100,000 messages while 1,000 a second arrive, and both queue managers are killed: minutes.
drain: $(INSTALLED)
	MSMQ_DRAIN=$${MSMQ_DRAIN:-100000} $(VENV)/bin/python -W error::RuntimeWarning -m twisted.trial \
		--temp-directory=_trial_temp_drain tests.leaving.test_drain_run

# The day of an operator with 100,000 messages, of which the suite has 2,000: three servers and the command, minutes.
operator-day: $(INSTALLED)
	MSMQ_OPERATOR_DAY=$${MSMQ_OPERATOR_DAY:-100000} $(VENV)/bin/python -W error::RuntimeWarning -m twisted.trial \
		--temp-directory=_trial_temp_day tests.integration.test_operator_day

# Everything that reads what unauthenticated peers send, guided by coverage: FUZZ executions a target, minutes to hours.
FUZZ ?= 100000
fuzz: $(INSTALLED)
	$(VENV)/bin/python -c 'import atheris' 2>/dev/null || $(VENV)/bin/python -m pip install --quiet \
		--disable-pip-version-check --constraint constraints.txt --editable '.[fuzz]'
	$(VENV)/bin/python -m tests.fuzz.campaign --runs $(FUZZ) --jobs $(JOBS)

# Spark follows a message log while a hundred thousand messages come in, and is killed ten times: minutes.
stream: $(INSTALLED)
	MSMQ_STREAM=$${MSMQ_STREAM:-100000} $(VENV)/bin/python -W error::RuntimeWarning -m twisted.trial \
		--temp-directory=_trial_temp_stream tests.pipeline.processes.test_kills

# The sink of Spark, twenty kills of its driver and of the server that it sends to: ten minutes and more.
sink: $(INSTALLED)
	MSMQ_SINK=$${MSMQ_SINK:-20} $(VENV)/bin/python -W error::RuntimeWarning -m twisted.trial \
		--temp-directory=_trial_temp_sink tests.pipeline.processes.sink_under_kills

# A cluster of Spark with two workers, which read over the network, and lack the package once: a minute.
cluster: $(INSTALLED)
	MSMQ_CLUSTER=1 $(VENV)/bin/python -W error::RuntimeWarning -m twisted.trial \
		--temp-directory=_trial_temp_cluster tests.pipeline.processes.cluster_of_workers

# The data source with the newest PySpark 4.0 and 4.1, each in a directory of its own (400 MB): minutes.
SPARK_VERSIONS ?= 4.0.5 4.1.4
spark-versions: $(INSTALLED)
	for version in $(SPARK_VERSIONS); do \
		test -d build/pyspark-$$version/pyspark || $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
			--no-deps --target build/pyspark-$$version pyspark==$$version || exit 1; \
		PYTHONPATH=build/pyspark-$$version:$(CURDIR) $(VENV)/bin/python -m tests.pipeline.processes.spark_version $$version || exit 1; \
	done

# All jobs on three servers with two thousand messages of each kind, an archive and an export: minutes.
estate-jobs: $(INSTALLED)
	MSMQ_ESTATE=$${MSMQ_ESTATE:-2000} $(VENV)/bin/python -W error::RuntimeWarning -m twisted.trial \
		--temp-directory=_trial_temp_estate tests.pipeline.processes.jobs_on_an_estate

lint: $(INSTALLED)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/python -m tests.typing.check

# Licences of what an installation with all extras requires, and known vulnerabilities as far as PyPI can be asked.
audit: $(INSTALLED)
	$(VENV)/bin/python packaging/dependencies.py licences
	$(VENV)/bin/python packaging/dependencies.py audit

# The bill of materials of a release (CycloneDX), in dist/msmq.cdx.json.
sbom: $(INSTALLED)
	$(RELEASE) --editable '.[all]'
	$(VENV)/bin/python packaging/dependencies.py sbom dist/msmq.cdx.json

# The wheel in an empty environment of each supported Python of this machine: a server, and a broker of 20 lines.
installation: $(INSTALLED)
	$(VENV)/bin/python -m tests.installation

# The documentation site with its reference and search, in build/docs/html; a warning is an error.
docs: $(INSTALLED)
	$(VENV)/bin/python -c 'import furo, pydoctor' 2>/dev/null || $(VENV)/bin/python -m pip install --quiet \
		--disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	$(VENV)/bin/python docs/site/build.py

RELEASE := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	--editable '.[release]'

# Git runs the checks of `make lint` before a commit, and looks at its message.
hooks: $(INSTALLED)
	$(RELEASE)
	$(VENV)/bin/pre-commit install

# Manual pages in build/man, from the help of the command.
man: $(INSTALLED)
	$(VENV)/bin/python -m msmq.cli.manual build/man

# A Debian package in build/deb, for Debian 12; deb-test installs, starts, upgrades and purges it in an overlay of
# the file system, as root, with lintian.
deb: $(INSTALLED)
	packaging/debian/build build/deb

deb-test: $(INSTALLED)
	packaging/debian/test build/deb

# The files from npm packages in the repository, at the versions that the script names.
web-assets: $(INSTALLED)
	$(VENV)/bin/python packaging/web_assets.py

# The pictures in docs/guide/images, from a server that it starts; it needs Chromium.
screenshots: $(INSTALLED)
	$(VENV)/bin/python -m tests.web.console.screenshots

# docs/events.md, from the log lines in the code.
events: $(INSTALLED)
	$(VENV)/bin/python -m tests.test_architecture.event_table

# The next section of the changelog, as it would be now.
changelog: $(INSTALLED)
	$(RELEASE)
	$(VENV)/bin/towncrier build --draft --version "$$($(VENV)/bin/python -c 'import msmq; print(msmq.__version__)')"

bench: $(INSTALLED)
	$(VENV)/bin/python bench/run.py

# The table of bench/README.md, compared with RabbitMQ; Debian's rabbitmq-server has to be installed.
bench-goals: $(INSTALLED)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt 'pika'
	$(VENV)/bin/python bench/goals.py

# gssapi is built from source; without the headers of MIT Kerberos and of Python the tests of keytabs are skipped.
HEADERS = $(shell $(PYTHON) -c 'import os, sysconfig; print(os.path.exists(sysconfig.get_config_h_filename()))')
KERBEROS = $(if $(shell command -v krb5-config),$(if $(filter True,$(HEADERS)),$(comma)kerberos))

$(INSTALLED): $(SOURCES)
	@test -n "$(PYTHON)" || { echo "msmq needs Python 3.11 or newer with venv: apt-get install python3-venv" >&2; exit 1; }
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable '.[test,lint$(KERBEROS)]'
	touch $@

clean:
	rm -rf $(VENV) _fuzz _trial_temp* _demo_pipeline .hypothesis .mypy_cache .ruff_cache build dist msmq.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -f twisted/plugins/dropin.cache
