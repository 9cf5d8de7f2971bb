"""The supported vendors in one table: library, key variable, default model.

pydantic-ai supports more vendors; another one needs only a row here. The defaults are the newest small models, because
an operator who only set a key has not agreed to any cost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    package: str = "openai"  # must be importable in addition to pydantic-ai
    key_env: str | None = None  # None: no key is needed
    default: str = ""  # the model if only the key is set
    has_address: bool = False  # whether base_url may be set
    address_env: str | None = None  # the variable that its library reads if base_url is not set
    prices: str = ""  # its name in the price table; empty: free

    @property
    def is_foreign(self) -> bool:
        """Whether its library uses an HTTP client of its own, whose timeouts and redirects we do not control."""
        return self.package not in ("openai", "anthropic")

    @property
    def install(self) -> str:
        return f"pip install 'pydantic-ai-slim[{self.prices}]'" if self.is_foreign else "install holdfast[models]"

    @property
    def lacking(self) -> str:
        """The missing library; empty if all are installed. Imports none of them."""
        try:
            return next((name for name in ("pydantic_ai", self.package) if find_spec(name) is None), "")
        except ModuleNotFoundError:  # the parent of a dotted name
            return self.package


OPENAI = Vendor(key_env="OPENAI_API_KEY", has_address=True, address_env="OPENAI_BASE_URL", prices="openai")
VENDORS: Mapping[str, Vendor] = {
    # `openai` is the Responses API; with base_url it is Chat Completions, which every compatible server has.
    "openai": replace(OPENAI, default="gpt-6-luna"),
    "openai-chat": OPENAI,
    "openai-responses": OPENAI,
    "anthropic": Vendor(
        package="anthropic",
        key_env="ANTHROPIC_API_KEY",
        default="claude-haiku-5-5",
        has_address=True,
        address_env="ANTHROPIC_BASE_URL",
        prices="anthropic",
    ),
    "ollama": Vendor(default="llama3.2", has_address=True),
    # Vendors with OpenAI's protocol at their own URLs.
    "openrouter": Vendor(key_env="OPENROUTER_API_KEY", prices="openrouter"),
    "deepseek": Vendor(key_env="DEEPSEEK_API_KEY", prices="deepseek"),
    "together": Vendor(key_env="TOGETHER_API_KEY", prices="together"),
    "fireworks": Vendor(key_env="FIREWORKS_API_KEY", prices="fireworks"),
    "moonshotai": Vendor(key_env="MOONSHOTAI_API_KEY", address_env="MOONSHOTAI_BASE_URL", prices="moonshotai"),
    "cerebras": Vendor(key_env="CEREBRAS_API_KEY", prices="cerebras"),
    "zai": Vendor(key_env="ZAI_API_KEY", prices="zai"),
    "google": Vendor(
        package="google.genai", key_env="GOOGLE_API_KEY", address_env="GOOGLE_GEMINI_BASE_URL", prices="google"
    ),
    "groq": Vendor(package="groq", key_env="GROQ_API_KEY", address_env="GROQ_BASE_URL", prices="groq"),
    "mistral": Vendor(package="mistralai", key_env="MISTRAL_API_KEY", prices="mistral"),
    "cohere": Vendor(package="cohere", key_env="CO_API_KEY", address_env="CO_BASE_URL", prices="cohere"),
}
