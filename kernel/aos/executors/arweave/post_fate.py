"""Post a bundle -> its fate. No answer of a gateway is taken for "not sent" without evidence."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Literal, TypeAlias

from aos.executors.arweave.bundle_transaction import BundleTransaction
from aos.executors.arweave.gateway_client import GatewayClient, InChain, NotInChain
from aos.worker import EffectFailed

Fate: TypeAlias = Literal["Posted", "Known", "NoFunds", "Rejected", "Unknown", "NoKey"]

FATES: Final[dict[int, Fate]] = {
    HTTPStatus.OK: "Posted",
    HTTPStatus.ACCEPTED: "Posted",
    HTTPStatus.ALREADY_REPORTED: "Known",
    HTTPStatus.BAD_REQUEST: "Rejected",
    HTTPStatus.PAYMENT_REQUIRED: "NoFunds",
    HTTPStatus.FORBIDDEN: "Rejected",
    HTTPStatus.GONE: "NoFunds",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Rejected",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Rejected",
}
"""The fate by the status of the answer, before the look of AW-22. Any other is ``Unknown``."""

ONE_STATUS_FOR_TWO: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN)
"""Nodes answer these both to a wallet without funds and to an invalid transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostFate:
    """``fate``, ``code`` and ``message`` of an upload receipt."""

    fate: Fate
    code: int | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """A transaction, and the wallet that pays ``reward`` winston for it."""

    gateway: GatewayClient
    transaction: BundleTransaction
    reward: int
    address: str

    async def post(self) -> PostFate:
        """Post the transaction unless the gateway has it already (AW-20).

        Raises:
            EffectFailed: The gateway cannot even be asked whether it has it. Nothing was sent.
        """
        if await self._is_known():
            message = f"the gateway {self.gateway.host} has the bundle already"
            return PostFate(fate="Known", code=None, message=message)
        try:
            answer = await self.gateway.post(self.transaction.body)
        except EffectFailed as error:  # AW-23
            return PostFate(fate="Unknown", code=None, message=error.message)
        return PostFate(
            fate=await self._fate(answer.status),
            code=answer.status,
            message=self.gateway.quoted(answer),
        )

    async def _fate(self, status: int) -> Fate:
        """The fate by the status of the answer to the post (AW-21). Nodes answer 400 to 499 also to
        a bundle that they have, and to a wallet that cannot pay, so these are checked (AW-22)."""
        fate = FATES.get(status, "Unknown")
        if not HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return fate
        try:
            if await self._is_known():
                return "Known"
            if status in ONE_STATUS_FOR_TWO and not await self._can_pay():
                return "NoFunds"
        except EffectFailed:
            return "Unknown"
        return fate

    async def _can_pay(self) -> bool:
        return await self.gateway.balance(self.address) >= self.reward

    async def _is_known(self) -> bool:
        chain_status = await self.gateway.chain_status(self.transaction.id)
        return isinstance(chain_status, InChain) or chain_status is NotInChain.PENDING
