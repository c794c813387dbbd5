//! Cycles in a small graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The edges: the successors of each node.
pub type Graph = BTreeMap<usize, BTreeSet<usize>>;

/// A strongly connected component: nodes that can all reach each other.
#[derive(Debug, PartialEq, Eq)]
pub struct Knot {
    pub nodes: usize,
    /// The shortest cycle in it, from its smallest node, which is not repeated at the end.
    pub circle: Vec<usize>,
}

/// All strongly connected components with a cycle.
pub fn knots(graph: &Graph) -> Vec<Knot> {
    let mut knotted = BTreeSet::new();
    let mut knots = Vec::new();
    for node in graph.keys() {
        if knotted.contains(node) {
            continue;
        }
        let knot = knot_of(graph, *node);
        let circle = knot.iter().filter_map(|member| circle_through(graph, *member));
        knots.extend(circle.min_by_key(Vec::len).map(|circle| Knot { nodes: knot.len(), circle }));
        knotted.extend(knot);
    }
    knots
}

/// The nodes that `node` can reach and that can reach `node`, including itself.
fn knot_of(graph: &Graph, node: usize) -> BTreeSet<usize> {
    let forward = reached(graph, node);
    let leads_back = |other: &usize| *other == node || reached(graph, *other).contains(&node);
    forward.into_iter().filter(leads_back).chain([node]).collect()
}

fn reached(graph: &Graph, from: usize) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(node) = waiting.pop() {
        let next = graph.get(&node).into_iter().flatten();
        waiting.extend(next.filter(|next| seen.insert(**next)));
    }
    seen
}

/// The shortest path from `start` back to itself.
fn circle_through(graph: &Graph, start: usize) -> Option<Vec<usize>> {
    let mut before = BTreeMap::new();
    let mut waiting = VecDeque::from([start]);
    while let Some(node) = waiting.pop_front() {
        for next in graph.get(&node).into_iter().flatten() {
            if *next == start {
                let way = std::iter::successors(Some(node), |node| before.get(node).copied());
                let mut circle: Vec<_> = way.collect();
                circle.reverse();
                return Some(circle);
            }
            if let std::collections::btree_map::Entry::Vacant(vacant) = before.entry(*next) {
                vacant.insert(node);
                waiting.push_back(*next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(usize, usize)]) -> Graph {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry(*from).or_default().insert(*to);
        }
        graph
    }

    #[test]
    fn what_only_leads_down_has_no_circle() {
        assert!(knots(&graph(&[(1, 2), (1, 3), (2, 3)])).is_empty());
    }

    #[test]
    fn each_knot_shows_its_shortest_circle() {
        let edges = [(1, 2), (2, 3), (3, 1), (3, 2), (3, 7), (7, 8), (8, 7)];
        let expected =
            [Knot { nodes: 3, circle: vec![2, 3] }, Knot { nodes: 2, circle: vec![7, 8] }];
        assert_eq!(knots(&graph(&edges)), expected);
    }
}
