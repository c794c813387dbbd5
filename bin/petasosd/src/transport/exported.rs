//! What applications of this host serve, as other hosts bind it.
//!
//! A service whose application has gone keeps its name and the numbers of its methods, but not its
//! schema. If the same version comes back, it has them again, in the sessions that there are, too.

use std::collections::HashSet;
use std::sync::Arc;

use petasos::rt::ServiceRef;
use petasos::untyped::Service;
use petasos_service::{Binding, Hub, Memory};

use super::Transport;
use super::known::Known;
use super::serving::Served;

/// A service that other hosts know.
pub(super) struct Exported {
    known: Arc<Known>,
    /// While an application serves it: then others can bind it.
    descriptor: Option<ServiceRef>,
}

impl Transport {
    /// Lets other hosts bind what applications serve, and nothing else.
    pub(super) fn serve<M: Memory>(&mut self, hub: &Hub<M>) {
        let exports = hub.exports(self.listener);
        let served: HashSet<&str> = exports.iter().map(|binding| &*binding.service).collect();
        // First of all, so that there is room for others.
        for (name, known) in &mut self.served {
            if known.descriptor.is_some() && !served.contains(&**name) {
                known.descriptor = None;
                let _was_served = self.event_loop.pause(name);
            }
        }
        for binding in &exports {
            if let Err(error) = self.export(binding) {
                eprintln!("petasosd: other hosts cannot call `{}`: {error}", binding.service);
            }
        }
        let all = self.served.values();
        self.grpc.publish(all.map(|known| (&known.known, known.descriptor.clone())));
    }

    /// Lets other hosts bind a service.
    ///
    /// # Errors
    /// A text that says why they cannot.
    fn export(&mut self, binding: &Binding) -> Result<(), String> {
        let service = Service::with_images(binding.types.schema(), &binding.service);
        let service = service.map_err(|error| error.to_string())?;
        let descriptor = service.info();
        let known = Known::of(descriptor);
        if let Some(exported) = self.served.get_mut(&known.name) {
            if exported.descriptor.as_ref().is_some_and(|now| now.is_same(descriptor)) {
                return Ok(());
            }
            let is_back = exported.descriptor.is_none() && *exported.known == known;
            if is_back && self.event_loop.resume(descriptor).map_err(|error| error.to_string())? {
                exported.descriptor = Some(descriptor.clone());
                return Ok(());
            }
            self.served.remove(&known.name);
            let _gone = self.event_loop.withdraw(&known.name);
        }
        let (known, descriptor) = (Arc::new(known), descriptor.clone());
        let tokens = self.requests.tokens(&known, binding);
        let served = Served { service, known: known.clone(), inbox: self.inbox.clone(), tokens };
        if let Err(error) = self.event_loop.serve(served) {
            self.requests.forget_tokens(known.methods().len());
            return Err(error.to_string());
        }
        self.served.insert(known.name.clone(), Exported { known, descriptor: Some(descriptor) });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NOW, SCHEMAS, World, attach, long_schema};
    use super::*;

    fn exported<'a>(world: &'a World, service: &str) -> &'a Exported {
        world.transport.served.get(service).expect("others know it")
    }

    #[test]
    fn services_whose_applications_have_gone_leave_no_descriptors() {
        let mut world = World::new();
        for number in 0..SCHEMAS {
            let (schema, service) = long_schema(number);
            let application = attach(&mut world.hub, (&schema, &service), "churn");
            world.run();
            assert!(exported(&world, &service).descriptor.is_some(), "{number}");
            world.hub.remove(application, NOW);
            world.run();
            assert!(exported(&world, &service).descriptor.is_none(), "{number}");
        }
        // Those of other tests are in there, too.
        assert!(Service::alive().bytes < 32 << 20, "{:?}", Service::alive());
        assert!(exported(&world, "managed.Work").descriptor.is_some());
    }

    #[test]
    fn a_service_that_comes_back_is_the_one_that_others_know() {
        let mut world = World::new();
        let (schema, service) = long_schema(0);
        let mut known = None;
        for _ in 0..3 {
            let application = attach(&mut world.hub, (&schema, &service), "churn");
            world.run();
            let exported = exported(&world, &service);
            assert!(exported.descriptor.is_some());
            let known = known.get_or_insert_with(|| exported.known.clone());
            assert!(Arc::ptr_eq(known, &exported.known), "it has its numbers");
            world.hub.remove(application, NOW);
            world.run();
        }
    }
}
