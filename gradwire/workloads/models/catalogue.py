"""The models and devices that gradwire comes with, and whatever is added to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from gradwire.faults import InputFault
from gradwire.nearest_names import question
from gradwire.workloads.models import model, model_among, model_names
from gradwire.workloads.models.device_facts import DEVICES, Device
from gradwire.workloads.models.profile import Profile
from gradwire.workloads.models.synthetic import base_name


@dataclass(frozen=True)
class Catalogue:
    """Models and devices, each made when it is first needed, because making one may import a package, and so fail."""

    models: Mapping[str, Callable[[], Profile]]
    devices: Mapping[str, Callable[[], Device]]

    def with_more(
        self, models: Mapping[str, Callable[[], Profile]], devices: Mapping[str, Callable[[], Device]]
    ) -> Catalogue:
        """Returns the catalogue with these models and devices added; they replace those of the same names."""
        return Catalogue({**self.models, **models}, {**self.devices, **devices})

    def model(self, name: str) -> Profile:
        """The model called `name`, with added modules as `gradwire.workloads.models.model` has them.

        Raises InputFault.
        """
        return model_among(self.models, name)

    def device(self, name: str) -> Device:
        """The device called `name`. Raises InputFault, with all names and the nearest one, if there is none."""
        if name not in self.devices:
            raise InputFault(f"{self._unknown(name)} Known: {', '.join(self.devices)}")
        return self.devices[name]()

    def device_for(self, name: str, profile: Profile) -> Device:
        """The device called `name`.

        Raises InputFault, with the devices that have a time for the model, if there is none.
        """
        if name not in self.devices:
            raise InputFault(f"{self._unknown(name)} {self.known_for(profile)}")
        return self.devices[name]()

    def _unknown(self, device: str) -> str:
        meant = question(device, self.devices)
        hint = f"; {meant}" if meant else "."
        return f"device '{device}' is not known{hint}"

    def devices_for(self, profile: Profile) -> list[str]:
        """Lists devices that have a time for a model: with a fact of the model, then of an alike model, then with a
        FLOP rate."""
        base = base_name(profile.name)
        listed = dict(self._loadable())
        with_fact = [name for name, device in listed.items() if any(fact.model == base for fact in device.facts)]
        alike = [name for name, device in listed.items() if base in device.alike]
        rated = [name for name, device in listed.items() if device.flops_per_s]
        return list(dict.fromkeys([*with_fact, *alike, *rated]))

    def _loadable(self) -> Iterator[tuple[str, Device]]:
        for name, make in self.devices.items():
            try:
                yield name, make()
            except InputFault:
                continue  # reported to whoever names the device

    def known_for(self, profile: Profile) -> str:
        """Phrases a sentence that says which devices would work for this model."""
        names = ", ".join(self.devices_for(profile))
        return f"Devices with a time for '{profile.name}': {names}; or give the iteration time in the scenario."


def _constant(device: Device) -> Device:
    return device


BUILT_IN = Catalogue(
    {name: partial(model, name) for name in model_names()},
    {name: partial(_constant, device) for name, device in DEVICES.items()},
)
