//! The permitted keys of each mapping of a contract file, in the form of those of rule files.

use syntax::keys::NameForm::{Plain, PlainOrEnd};
use syntax::keys::Shape::{Either, Entries, Formula, List, Mapping, Name, Symbol, Text, Words};
use syntax::keys::keys;

/// The words of `kind` of a module.
pub(super) const MODULE_KINDS: &[&str] = &["sequential", "data-parallel", "task-parallel"];
/// The words of `kind` of a stream.
pub(super) const STREAM_KINDS: &[&str] = &["unicast", "merge", "broadcast", "on-demand"];
/// The words of `combine` of a work.
pub(super) const COMBINATIONS: &[&str] = &["sum", "max"];

const NAMES: syntax::keys::Shape = Either(&[Name, List(&Name)]);
const NUMBERS: syntax::keys::Shape = Entries(Plain, &Formula);
/// Amounts; `if` and `measured` have mappings.
const WORK: syntax::keys::Shape = Entries(Plain, &Either(&[Formula, Entries(PlainOrEnd, &Formula)]));

keys! {
    /// The values of `contracts` are contracts too; a constant cannot name itself.
    CONTRACT "a contract" {
        "contract" => Text, "The contract's name: small letters, digits and single dashes.", required;
        "about" => Text, "What the program does, in a sentence.";
        "parameters" => NUMBERS, "Numbers that other entries use by name.";
        "streams" => Entries(Plain, &Mapping(&STREAM)), "The streams.", required;
        "modules" => Entries(Plain, &Mapping(&MODULE)), "The modules.", required;
        "work" => Entries(Plain, &Either(&[WORK, List(&WORK)])), "The work of an activation, by metric; a list has operating points.";
        "machines" => Entries(Plain, &Mapping(&MACHINE)), "The machines, by kind.";
        "links" => Entries(Plain, &Mapping(&LINK)), "The links between machines.";
        "require" => List(&Either(&[Formula, Mapping(&CONVERTED)])), "Lower bounds on rates.";
        "adapt" => Entries(Plain, &Mapping(&ADAPT)), "What may be changed, by module.";
        "contracts" => Entries(Plain, &Text), "The contracts of modules that are programs themselves.";
    }
    STREAM "a stream" {
        "from" => NAMES, "The modules that send; none for an input of a component.";
        "to" => NAMES, "The modules that receive; none for an output of a component.";
        "kind" => Words(STREAM_KINDS), "`on-demand`: each item goes to one receiver. The other kinds follow from the ends.";
        "item" => Formula, "The size of an item.";
        "buffer" => Formula, "How many items a receiver can have waiting; for simulations.";
        "latency" => Formula, "How long an item travels; for simulations.";
        "initial" => Formula, "How many items are there at the start, as in a cycle that begins with them; for simulations.";
    }
    MODULE "a module" {
        "kind" => Words(MODULE_KINDS), "Sequential unless stated.";
        "takes" => List(&Name), "One item of each is taken by an activation.";
        "gives" => NUMBERS, "Items out per activation.";
        "work" => Name, "The work of an activation.";
        "computations" => Entries(Plain, &Mapping(&COMPUTATION)), "Several computations, each with inputs of its own.";
        "workers" => Formula, "How many workers it has: a number, or a parameter.";
        "efficiency" => Entries(Plain, &Formula), "The used share of the workers' power, by their number.";
        "place" => Mapping(&PLACE), "Where it runs.";
        "contract" => Name, "An entry of `contracts` that describes it.";
        "map" => Entries(Plain, &Name), "For each of its streams, the stream of its own contract.";
    }
    COMPUTATION "a computation" {
        "takes" => List(&Name), "One item of each is taken by an activation.";
        "gives" => NUMBERS, "Items out per activation.";
        "work" => Name, "The work of an activation.";
    }
    PLACE "a place" {
        "machines" => Either(&[Name, NUMBERS]), "The kind of machine; or several, each with a number of machines.";
        "host" => Name, "The machine it must run on.";
        "domain" => Text, "The domain that its machines must belong to.";
        "has" => List(&Symbol), "Files or programs that its machines must have.";
        "needs" => NUMBERS, "The least properties of its machines.";
    }
    MACHINE "a machine" {
        "count" => Formula, "How many there are of this kind; 1 unless stated.";
        "power" => NUMBERS, "Work per time, by metric.";
        "properties" => NUMBERS, "Such as the size of its memory.";
        "domain" => Text, "The domain it belongs to.";
        "has" => List(&Symbol), "Files and programs that it has.";
        "cost" => Formula, "The cost of one machine; 1 unless stated.";
    }
    LINK "a link" {
        "bandwidth" => Formula, "Bytes or bits per time.", required;
        "streams" => List(&Name), "The streams that it carries.", required;
    }
    CONVERTED "a requirement" {
        "feature" => Name, "The rate that is required.", required;
        "items" => Formula, "A completion time: this number of items …", beside(&["within"]);
        "within" => Formula, "… in this time …", beside(&["items"]);
        "transient" => Formula, "… of which the first item takes this long.", beside(&["items"]);
        "response" => Formula, "A response time …", beside(&["in_flight"]);
        "in_flight" => Formula, "… while this number of items is in the program.", beside(&["response"]);
    }
    ADAPT "an adaptation" {
        "set" => Name, "The variable to set.", required;
        "range" => Text, "The least and the greatest value: `1..16`.", required;
        "at" => Text, "The function of the program at whose entry it is set; without it anywhere.";
    }
}

/// Every kind of mapping.
#[cfg(test)]
pub(super) const ALL: &[&syntax::keys::KeyTable] = &[
    &CONTRACT,
    &STREAM,
    &MODULE,
    &COMPUTATION,
    &PLACE,
    &MACHINE,
    &LINK,
    &CONVERTED,
    &ADAPT,
];
