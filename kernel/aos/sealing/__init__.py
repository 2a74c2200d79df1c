"""Sealed values: ciphertext that workflows carry and workers open (spec/sealed.md).

A client seals a field before it sends an event::

    from aos.sealing import Keyring

    keyring = Keyring.read("cards.keyring")
    card = keyring.seal_text("4111 1111 1111 1111", submission_id="order-1", path="$.card")
    client.send("card/Given@1", {"order_id": "o-1", "cents": 500, "card": card}, id="order-1")
"""

from aos.sealing.keyring import CannotOpen, Keyring, SealedValue, SealingKey

__all__ = ["CannotOpen", "Keyring", "SealedValue", "SealingKey"]
