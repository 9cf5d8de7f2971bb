"""The file that `holdfast init` writes: every setting, commented out except for one agent.

It is valid as it is, and also with every setting uncommented.
"""

TEMPLATE = """\
# The configuration of Holdfast, read once at start: after a change, run `holdfast config check`, then restart.
# A line with # directly before a word is a setting with its default or an example; remove the # to use it.
# Do not write secrets here: name an environment variable (token_env) or a file (token_file) that contains them.

# --- the HTTP API, the chat page and webhooks -----------------------------------------------------------------
#[server]
#host = "127.0.0.1"
#port = 7420
# The public host names of the reverse proxy, and the proxies whose X-Forwarded-For header is trusted.
#public_hosts = ["chat.example.org"]
#trusted_proxies = ["127.0.0.1"]

# The limits of the server per client (an IP address), per token and in total. The operator's connections are
# reserved for admin tokens and for health checks from this machine.
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

# --- an agent; choose any name, and add as many agents as you need --------------------------------------------
[agents.main]
instructions = "You are helpful and brief."
#context_tokens = 128000
# The limit for model costs per day (UTC), in US dollars. At the limit the agent says so and waits for the next day.
#daily_spend_usd = 5.0
# The built-in tools of the agent; by default all of them.
#tools = ["memory", "recall", "history", "send_message"]
# The other agents that it may message; by default none. For its messages they use only tools that both have.
#talks_to = []
# How often a message may be passed from agent to agent.
#hops_max = 8
# What to do with a reply that may or may not have been posted: "resend" (once, marked as uncertain) or "hold".
#on_doubt = "resend"

# The model. Without this table, Holdfast uses OPENAI_API_KEY, ANTHROPIC_API_KEY or a local Ollama, whichever it finds
# first, or else the offline practice model. Short form, among the settings above: model = "openai:gpt-5.2"
#[agents.main.model]
#name = "openai:gpt-5.2"
#api_key_env = "OPENAI_API_KEY"
#fallbacks = ["anthropic:claude-sonnet-5-5"]
#summariser = "openai:gpt-5-mini"

# When to summarise, as shares of context_tokens: start at soft, wait for the summary at hard, keep the newest share
# verbatim.
#[agents.main.compression]
#soft = 0.6
#hard = 0.85
#keep = 0.25

# How to handle a message that arrives during a turn: "queue", "steer", "interrupt" or "collect".
#[agents.main.turns]
#arrivals = "queue"
#turn_attempts_max = 10
#model_wait_s = 120.0

#[agents.main.limits]
#message_bytes = 262144
#mailbox_depth = 1000
#messages_per_minute = 600
#attachments_bytes = 1073741824

# Memories from private chats belong to that person and are not shown in groups unless private_in_groups is true.
#[agents.main.recall]
#enabled = true
#budget_ms = 1500
#limit = 8
#chars_max = 6000
#private_in_groups = false

# When an unused session ends; by default never.
#[agents.main.expiry]
#idle_minutes = 1440
#daily_at = "04:00"
#time_zone = "Europe/Berlin"

# --- who may talk to it ---------------------------------------------------------------------------------------
# An unknown sender is told how to request access ("pair"), ignored ("closed") or admitted ("open"). Identify people by
# the id of the platform, never by a name, because names can change hands. `holdfast pairs` lists access requests.
#[agents.main.access]
#door = "pair"
#allow = ["telegram:123456789", "discord:80351110224678912", "slack:T024BE7LD.U012AB3CD"]
#group_door = "closed"
#allow_chats = ["telegram:-1001234567890"]
# Who may use every command (/delete, /new, /approve, ...) in every chat and group, besides the admins of a group.
#operators = ["telegram:123456789"]

# Whether the members of a group or thread share one conversation ("shared") or have separate ones ("per_user").
# Messages that do not address the agent are kept as context (observe).
#[agents.main.groups]
#groups = "shared"
#threads = "shared"
#mention_only = true
#observe = true

# Tools whose calls require approval, and who may approve them; by default the sender of the message.
#[agents.main.approval]
#tools = ["send_message"]
#approvers = ["telegram:123456789"]
#wait_minutes = 1440

# --- chat platforms: one bot account per table -----------------------------------------------------------------
#[agents.main.channels.telegram]
#token_env = "TELEGRAM_TOKEN"
#mode = "polling"
#stream = false  # true shows a reply while it is being written; also for discord and slack

#[agents.main.channels.discord]
#token_env = "DISCORD_TOKEN"

#[agents.main.channels.slack]
#token_env = "SLACK_BOT_TOKEN"
#mode = "socket"
#app_token_env = "SLACK_APP_TOKEN"
# With mode = "http" Slack calls /v1/hooks/main/slack, and signing_secret_env replaces app_token_env.

# --- who sees its memories ---------------------------------------------------------------------------------------
# "person": each person sees only their own notes and messages, and a group only its own. "agent": every private chat
# sees all memories of the agent; use it for an agent that only you talk to.
[agents.main.memory]
sharing = "person"

# --- memory providers; without any of these tables: local and files --------------------------------------------
#[agents.main.memory.local]
#every_turns = 1

#[agents.main.memory.files]

#[agents.main.memory.hindsight]
#url = "http://127.0.0.1:8888"
#bank = "{agent}"

#[agents.main.memory.honcho]
#url = "http://127.0.0.1:8000"
#workspace = "holdfast"

# --- MCP servers, started by Holdfast or reached over HTTP -----------------------------------------------------
#[agents.main.mcp.time]
#command = ["uvx", "mcp-server-time"]

# --- another agent, with its instructions in a file beside this one -------------------------------------------
#[agents.helper]
#model = "practice"
#instructions_file = "SOUL.md"
"""
