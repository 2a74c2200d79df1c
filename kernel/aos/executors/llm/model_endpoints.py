"""``AOS_LLM_ENDPOINTS`` and ``AOS_LLM_TOKENIZERS``: the endpoints of each provider (AG-70)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from aos.executors.llm.llm_errors import not_configured
from aos.executors.named_addresses import NamedUrl, read_urls
from aos.worker.worker_secrets import SecretValue

ENDPOINTS: Final = "AOS_LLM_ENDPOINTS"
TOKENIZERS: Final = "AOS_LLM_TOKENIZERS"

_EXAMPLE: Final = f'{ENDPOINTS}="local=http://127.0.0.1:8000/v1"'


@dataclass(frozen=True, slots=True)
class ModelEndpoints:
    """The endpoints that this process may use, by provider."""

    endpoints: Mapping[str, NamedUrl]
    tokenizers: Mapping[str, NamedUrl]

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read both variables. Raises BadUsage, as ``read_urls``."""
        return cls(
            read_urls(ENDPOINTS, environment.get(ENDPOINTS, ""), example=_EXAMPLE),
            read_urls(
                TOKENIZERS,
                environment.get(TOKENIZERS, ""),
                example=f'{TOKENIZERS}="local=http://127.0.0.1:8000/tokenize"',
            ),
        )

    @property
    def secrets(self) -> list[SecretValue]:
        """The parts of all URLs that may be tokens."""
        addresses = (*self.endpoints.values(), *self.tokenizers.values())
        return [secret for address in addresses for secret in address.secrets]

    def endpoint(self, provider: str) -> NamedUrl:
        """The endpoint of a provider.

        Raises:
            NotConfigured: There is none, so the effect is held.
        """
        address = self.endpoints.get(provider)
        if address is None:
            provider_names = ", ".join(sorted(self.endpoints)) or "none"
            raise not_configured(
                f"{ENDPOINTS} has no endpoint of {provider!r:.80}: found {provider_names}",
                f"set {_EXAMPLE.replace('local=', f'{provider:.40}=')} and restart the process",
            )
        return address
