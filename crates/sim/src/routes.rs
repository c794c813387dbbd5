//! Shortest paths through the network; all equally short ones are kept.

use std::collections::VecDeque;

/// For every node and destination host, the links that lead nearer. Hosts never forward.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    hosts: usize,
    /// Where the choices of node `n` for host `h` start: entry `n * hosts + h`. One entry more
    /// closes the last range.
    starts: Vec<u32>,
    choices: Vec<u32>,
}

impl Routes {
    /// Routes over `links`, given as pairs of node numbers (hosts first, then switches).
    pub(crate) fn shortest(hosts: u32, switches: u32, links: &[(u32, u32)]) -> Routes {
        let nodes = (hosts + switches) as usize;
        let mut leaving = vec![Vec::new(); nodes];
        let mut entering = vec![Vec::new(); nodes];
        for (link, &(from, to)) in links.iter().enumerate() {
            leaving[from as usize].push((link as u32, to));
            entering[to as usize].push(from);
        }
        let distances: Vec<_> =
            (0..hosts).map(|host| distances_to(host, hosts, &entering)).collect();
        let mut routes = Routes { hosts: hosts as usize, starts: vec![0], choices: Vec::new() };
        for (node, leaving) in leaving.iter().enumerate() {
            for (host, distance) in distances.iter().enumerate() {
                let nearer = leaving.iter().filter(|(_, to)| {
                    // Nodes beyond another host cannot be reached through it.
                    let may_forward = *to >= hosts || *to as usize == host;
                    may_forward && distance[*to as usize].checked_add(1) == Some(distance[node])
                });
                routes.choices.extend(nearer.map(|&(link, _)| link));
                routes.starts.push(routes.choices.len() as u32);
            }
        }
        routes
    }

    /// The link on which `node` forwards a packet to `host`; `None` if there is no path. If there
    /// are several links, the flow's hash decides, and is only computed then.
    #[inline]
    pub(crate) fn next(
        &self,
        node: u32,
        host: u32,
        flow_hash: impl FnOnce() -> u64,
    ) -> Option<u32> {
        let entry = node as usize * self.hosts + host as usize;
        let choices = &self.choices[self.starts[entry] as usize..self.starts[entry + 1] as usize];
        match choices {
            [] => None,
            [only] => Some(*only),
            several => {
                let picked = (u128::from(flow_hash()) * several.len() as u128) >> 64;
                Some(several[picked as usize])
            }
        }
    }
}

/// Hops from every node to `host`; `u32::MAX` if there is no path. Only switches forward.
fn distances_to(host: u32, hosts: u32, entering: &[Vec<u32>]) -> Vec<u32> {
    let mut distances = vec![u32::MAX; entering.len()];
    distances[host as usize] = 0;
    let mut frontier = VecDeque::from([host]);
    while let Some(node) = frontier.pop_front() {
        if node != host && node < hosts {
            continue;
        }
        for &from in &entering[node as usize] {
            if distances[from as usize] == u32::MAX {
                distances[from as usize] = distances[node as usize] + 1;
                frontier.push_back(from);
            }
        }
    }
    distances
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_do_not_forward() {
        // Host 0 - host 1 - host 2 in a row, and host 0 - switch 3 - switch 4 - host 2.
        let cables = [(0, 1), (1, 2), (0, 3), (3, 4), (4, 2)];
        let links: Vec<_> = cables.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
        let routes = Routes::shortest(3, 2, &links);
        assert_eq!(routes.next(0, 1, || 0), Some(0));
        assert_eq!(routes.next(0, 2, || 0), Some(4), "by way of the switches");
        assert_eq!(routes.next(3, 2, || 0), Some(6));
    }

    #[test]
    fn a_flow_keeps_to_one_of_the_equal_ways() {
        // Two hosts on two leaves (2, 3), joined by four spines (4 to 7).
        let mut cables = vec![(0, 2), (1, 3)];
        (4..8).for_each(|spine| cables.extend([(2, spine), (3, spine)]));
        let links: Vec<_> = cables.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
        let routes = Routes::shortest(2, 6, &links);
        let quarter = u64::MAX / 4;
        let picks: Vec<_> =
            (0..4).map(|i| routes.next(2, 1, || quarter * i + quarter / 2).unwrap()).collect();
        let ends: Vec<u32> = picks.iter().map(|&link| links[link as usize].1).collect();
        assert_eq!(ends, [4, 5, 6, 7]);
    }

    #[test]
    fn there_may_be_no_way() {
        let routes = Routes::shortest(2, 0, &[]);
        assert_eq!(routes.next(0, 1, || 0), None);
    }
}
