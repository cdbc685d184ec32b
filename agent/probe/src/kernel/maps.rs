//! The maps of a loaded object, by name. The process that loaded it may be another one: then they come as
//! descriptors.

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd, OwnedFd},
};

use aya::{
    Ebpf,
    maps::{Map, MapData, MapError},
};

use super::{
    KernelError,
    program::{data, missing},
};

pub(super) struct Maps(BTreeMap<String, Map>);

impl Maps {
    pub(super) fn of(mut loaded: Ebpf) -> Maps {
        let names: Vec<String> = loaded.maps().map(|(name, _)| name.to_owned()).collect();
        let maps = names.into_iter().filter_map(|name| {
            let map = loaded.take_map(&name)?;
            Some((name, map))
        });
        Maps(maps.collect())
    }

    /// Maps of another process, by their descriptors.
    pub(super) fn received(descriptors: Vec<(&str, OwnedFd)>) -> Result<Maps, MapError> {
        let maps = descriptors.into_iter().map(|(name, descriptor)| {
            let map = Map::from_map_data(MapData::from_fd(descriptor)?)?;
            Ok((name.to_owned(), map))
        });
        Ok(Maps(maps.collect::<Result<_, MapError>>()?))
    }

    pub(super) fn map(&self, name: &str) -> Option<&Map> {
        self.0.get(name)
    }

    pub(super) fn map_mut(&mut self, name: &str) -> Option<&mut Map> {
        self.0.get_mut(name)
    }

    pub(super) fn take_map(&mut self, name: &str) -> Option<Map> {
        self.0.remove(name)
    }

    /// Duplicates the descriptor of a map.
    pub(super) fn share(&self, name: &'static str) -> Result<OwnedFd, KernelError> {
        let map = self.map(name).and_then(data).ok_or_else(|| missing(name))?;
        let copy: io::Result<OwnedFd> = map.fd().as_fd().try_clone_to_owned();
        copy.map_err(KernelError::part(format!("its map {name} cannot be shared")))
    }
}
