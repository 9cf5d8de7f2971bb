"""What `holdfast init` writes: every table, commented out but one agent. It is read as it stands, and with every
setting uncommented too."""

TEMPLATE = """\
# Holdfast's configuration. It is read once, at start: run `holdfast config check` after a change, then restart.
# Lines that begin with # and a word are settings with their defaults or an example; take the # away to use them.
# Secrets do not stand here: name an environment variable (token_env) or a file (token_file) that holds them.

# --- the HTTP API, the chat page and webhooks -----------------------------------------------------------------
#[server]
#host = "127.0.0.1"
#port = 7420
# Names under which a reverse proxy is reached from outside, and whose X-Forwarded-For is believed.
#public_hosts = ["chat.example.org"]
#trusted_proxies = ["127.0.0.1"]

# How much of the server one client (an address), one token and all of them together may use. The operator's
# connections stay free for whoever has an admin token, and for health checks from this machine.
#[server.limits]
#connections_max = 800
#operator_connections = 32
#client_connections_max = 400
#half_open_max = 256
#client_half_open_max = 128
#client_requests_max = 400
#token_requests_max = 400
#body_bytes_max = 33554432
#client_body_bytes_max = 16777216
#token_body_bytes_max = 16777216
#client_bytes_per_minute = 268435456
#token_bytes_per_minute = 268435456
#client_chats_per_hour = 2000
#token_chats_per_hour = 1000

# --- an agent; its name is yours to choose, and there may be many ---------------------------------------------
[agents.main]
instructions = "You are helpful and brief."
#context_tokens = 128000
# What its models may cost per day (UTC), in US dollars. Beyond it the agent says so and waits for the next day.
#daily_spend_usd = 5.0
# Which built-in tools it has; all of them unless said.
#tools = ["memory", "recall", "history", "send_message"]
# Which other agents it may message; none unless said. They use only tools that both have.
#talks_to = []
# How often a message may go on from agent to agent.
#hops_max = 8
# What becomes of a reply that may have been posted or not: "resend" (once, shown as uncertain) or "hold".
#on_doubt = "resend"

# The model. Without this table: whatever OPENAI_API_KEY, ANTHROPIC_API_KEY or a local Ollama offers, else the offline
# practice model. In one line, among the settings above: model = "openai:gpt-5.2"
#[agents.main.model]
#name = "openai:gpt-5.2"
#api_key_env = "OPENAI_API_KEY"
#fallbacks = ["anthropic:claude-sonnet-5-5"]
#summariser = "openai:gpt-5-mini"

# When to summarise, as shares of context_tokens: begin at soft, wait for it at hard, keep the newest share as it is.
#[agents.main.compression]
#soft = 0.6
#hard = 0.85
#keep = 0.25

# What happens to a message that arrives during a turn: "queue", "steer", "interrupt" or "collect".
#[agents.main.turns]
#arrivals = "queue"
#turn_attempts_max = 10
#model_wait_s = 120.0

#[agents.main.limits]
#message_bytes = 262144
#mailbox_depth = 1000
#messages_per_minute = 600
#attachments_bytes = 1073741824

# What is noted or said in private is that person's and is not shown in groups, unless private_in_groups says so.
#[agents.main.recall]
#enabled = true
#budget_ms = 1500
#limit = 8
#chars_max = 6000
#private_in_groups = false

# When a session that nobody uses ends; never, unless said.
#[agents.main.expiry]
#idle_minutes = 1440
#daily_at = "04:00"
#time_zone = "Europe/Berlin"

# --- who may talk to it ---------------------------------------------------------------------------------------
# A stranger is refused and told how to ask ("pair"), refused in silence ("closed") or let in ("open"). People are named
# by the platform's own id, never by a name: names can be given away. `holdfast pairs` shows who asked.
#[agents.main.access]
#door = "pair"
#allow = ["telegram:123456789", "discord:80351110224678912", "slack:T024BE7LD.U012AB3CD"]
#group_door = "closed"
#allow_chats = ["telegram:-1001234567890"]
# Who may give every command (/delete, /new, /approve, ...) in every chat and group, beside the admins of a group.
#operators = ["telegram:123456789"]

# Whose conversation a group or a thread is: "shared" or "per_user". What is not said to the agent is observed.
#[agents.main.groups]
#groups = "shared"
#threads = "shared"
#mention_only = true
#observe = true

# Tools whose calls wait for a human, and who may say yes; without approvers, whoever asked the agent.
#[agents.main.approval]
#tools = ["send_message"]
#approvers = ["telegram:123456789"]
#wait_minutes = 1440

# --- where it talks: one bot account per table ----------------------------------------------------------------
#[agents.main.channels.telegram]
#token_env = "TELEGRAM_TOKEN"
#mode = "polling"
#stream = false  # true shows a reply while it is made; also on discord and slack

#[agents.main.channels.discord]
#token_env = "DISCORD_TOKEN"

#[agents.main.channels.slack]
#token_env = "SLACK_BOT_TOKEN"
#mode = "socket"
#app_token_env = "SLACK_APP_TOKEN"
# With mode = "http" Slack calls /v1/hooks/main/slack, and signing_secret_env takes the place of app_token_env.

# --- who is shown what it remembers ----------------------------------------------------------------------------
# "person": each person is shown their own notes and words, a group its own. "agent": every private conversation is
# shown everything the agent remembers, whoever talks; for an agent that only you talk to.
[agents.main.memory]
sharing = "person"

# --- what it remembers with; without any of these tables: local and files -------------------------------------
#[agents.main.memory.local]
#every_turns = 1

#[agents.main.memory.files]

#[agents.main.memory.hindsight]
#url = "http://127.0.0.1:8888"
#bank = "{agent}"

#[agents.main.memory.honcho]
#url = "http://127.0.0.1:8000"
#workspace = "holdfast"

# --- tools of others: MCP servers, started here or reached over HTTP ------------------------------------------
#[agents.main.mcp.time]
#command = ["uvx", "mcp-server-time"]

# --- another agent, with its instructions in a file beside this one -------------------------------------------
#[agents.helper]
#model = "practice"
#instructions_file = "SOUL.md"
"""
