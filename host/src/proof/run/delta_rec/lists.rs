//! The cases.

use super::super::{Context, Row, Scale, Work};
use super::whole::whole;
use super::{Group, batch, bits};
use crate::proof::case::RecShape;
use crate::proof::inputs::{BASE, Inputs, REPORTED_FAULTS, STRESS};

/// Runs of one case on a card that must give the same bits.
const REPEATS: usize = 50;

type Prove = fn(&Context<'_>, &str, (Group, RecShape)) -> Vec<Row>;

/// Cases of one group at one scale.
struct Lists {
    group: Group,
    scale: Scale,
    works: Vec<Work>,
}

impl Lists {
    /// The case's name: law, tokens, heads; names of the chunked group say so.
    fn name(&self, law: &str, shape: &RecShape) -> String {
        let group = if self.group == Group::Chunked { "chunked/" } else { "" };
        let gaps = if shape.is_dense() { "" } else { "/gaps" };
        format!("{group}{law}/T={}/heads={}x{}{gaps}", shape.tokens, shape.key_heads, shape.value_heads)
    }

    fn whole(&mut self, law: &'static Inputs, shape: RecShape) {
        let (of, is_base) = ((self.group, shape), law == &BASE);
        let run =
            move |context: &Context<'_>, name: &str| whole(context, name, of, (law, is_base), context.devices.seeds());
        self.works.push(Work::new(self.name(law.name, &shape), run));
    }

    /// Every law that strains something.
    fn stress(&mut self, shape: RecShape) {
        STRESS.iter().chain(REPORTED_FAULTS).for_each(|law| self.whole(law, shape));
    }

    fn bits(&mut self, law: &str, shape: RecShape, run: Prove) {
        let of = (self.group, shape);
        self.works.push(Work::new(self.name(law, &shape), move |context, name| run(context, name, of)));
    }

    /// Many runs of one case: a wait that is missing may show once in a while only.
    fn repeats(&mut self, shape: RecShape) {
        let of = (self.group, shape);
        let run = move |context: &Context<'_>, name: &str| {
            let few = context.devices.seeds();
            let runs = if context.device().caps().is_emulator { few } else { REPEATS.max(few) };
            whole(context, name, of, (&BASE, true), runs)
        };
        self.works.push(Work::new(self.name("repeats", &shape), run));
    }

    fn padding(&mut self, heads: (usize, usize)) {
        let group = self.group;
        let name = self.name("k28_padding_keeps_state", &RecShape::dense(heads.0, heads.1, 64));
        self.works.push(Work::new(name, move |context, name| bits::padding(context, name, (group, heads))));
    }

    fn batches(&mut self, heads: (usize, usize), lengths: &'static [usize]) {
        let of = (self.group, heads, lengths);
        let shape = RecShape::dense(heads.0, heads.1, lengths.iter().sum());
        let name = self.name(&format!("batch_of_{}", lengths.len()), &shape);
        self.works.push(Work::new(name, move |context, name| batch::equal(context, name, of)));
        let name = self.name(&format!("hostile_starts_of_{}", lengths.len()), &shape);
        self.works.push(Work::new(name, move |context, name| batch::hostile(context, name, of)));
    }
}

/// The cases of this operation.
pub fn works(scale: Scale) -> Vec<Work> {
    let lists = |group| Lists { group, scale, works: Vec::new() };
    let mut works = sequential(lists(Group::Sequential));
    works.extend(chunked(lists(Group::Chunked)));
    works
}

fn sequential(mut lists: Lists) -> Vec<Work> {
    let small = lists.scale.is_small();
    let (key_heads, value_heads) = if small { (2, 6) } else { (16, 48) };
    let main = |tokens: usize| RecShape::dense(key_heads, value_heads, tokens);
    let few = |tokens: usize| if small { RecShape::dense(1, 3, tokens) } else { main(tokens) };

    // Token counts at which a staging, a window or a chunk ends, or just does not.
    [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33].into_iter().for_each(|tokens| lists.whole(&BASE, main(tokens)));
    [32, 63, 64, 65, 127, 128, 129, 133, 257].into_iter().for_each(|tokens| lists.whole(&BASE, few(tokens)));
    if !small {
        [1000, 4099].into_iter().for_each(|tokens| lists.whole(&BASE, main(tokens)));
    }
    for (key_heads, value_heads) in [(1, 1), (2, 4), (3, 9), (1, 4), (1, 5), (16, 16), (16, 32), (16, 64)] {
        if !small || key_heads < 16 {
            [6, 19].into_iter().for_each(|tokens| lists.whole(&BASE, RecShape::dense(key_heads, value_heads, tokens)));
        }
    }
    [5, 19].into_iter().for_each(|tokens| lists.whole(&BASE, RecShape::gapped(key_heads, value_heads, tokens)));

    lists.stress(few(8));
    lists.stress(few(if small { 70 } else { 4099 }));
    if lists.scale == Scale::Long {
        lists.stress(main(32_768));
        lists.whole(&BASE, main(32_768));
    }
    if !small {
        lists.repeats(main(257));
    }

    [8, 37].into_iter().for_each(|tokens| lists.bits("split", few(tokens), bits::split));
    [1, 8, 19].into_iter().for_each(|tokens| lists.bits("kept", main(tokens), bits::kept));
    [2, 66].into_iter().for_each(|tokens| lists.bits("k13_handover", few(tokens), bits::handover));
    let chosen: Prove = |context, name, (_, shape)| bits::chosen(context, name, shape);
    [1, 8, 33].into_iter().for_each(|tokens| lists.bits("chosen", main(tokens), chosen));
    lists.padding(if small { (1, 3) } else { (16, 48) });
    lists.batches((2, 6), &[3, 8, 0, 1, 5]);
    lists.batches((2, 6), &[1, 33, 0, 64, 30]);
    lists.works
}

fn chunked(mut lists: Lists) -> Vec<Work> {
    let (small, thorough) = (lists.scale.is_small(), lists.scale != Scale::Small);
    let (key_heads, value_heads) = if small { (2, 6) } else { (16, 48) };
    let main = |tokens: usize| RecShape::dense(key_heads, value_heads, tokens);
    let few = |tokens: usize| if small { RecShape::dense(1, 1, tokens) } else { main(tokens) };

    // Ends of chunks of 32 tokens; of passes of 4,096.
    let tokens: &[usize] = if thorough {
        &[1, 2, 3, 5, 8, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129, 130, 257, 515]
    } else {
        &[1, 31, 32, 33, 65, 97]
    };
    tokens.iter().for_each(|&tokens| lists.whole(&BASE, main(tokens)));
    if !small {
        [2047, 2048, 2049, 2080, 4095, 4096, 4099, 8192]
            .into_iter()
            .for_each(|tokens| lists.whole(&BASE, main(tokens)));
    }
    let heads: &[(usize, usize)] = if thorough {
        &[(1, 1), (1, 4), (2, 6), (4, 12), (16, 16), (16, 32), (32, 32), (16, 64), (1, 5)]
    } else {
        &[(1, 1), (1, 4)]
    };
    for &(key_heads, value_heads) in heads {
        if !small || key_heads < 16 {
            lists.whole(&BASE, RecShape::dense(key_heads, value_heads, 70));
        }
    }
    lists.whole(&BASE, RecShape::gapped(key_heads, value_heads, 35));

    if thorough {
        lists.stress(few(130));
    } else {
        let hard = [
            "reset_gates",
            "beta_faint",
            "v_state_x1e-20",
            "v_state_x1e5",
            "k01_same_key",
            "k01_clusters",
            "k04_spikes",
        ];
        let hard = STRESS.iter().chain(REPORTED_FAULTS).filter(|law| hard.contains(&law.name));
        hard.for_each(|law| lists.whole(law, few(70)));
    }
    if !small {
        lists.stress(main(4099));
        lists.repeats(main(257));
        // Few heads: segments of a call side by side.
        let of_few = |(key_heads, value_heads), tokens| RecShape::dense(key_heads, value_heads, tokens);
        lists.stress(of_few((2, 6), 4099));
        for heads in [(1, 1), (4, 12), (16, 16)] {
            [2048, 8191].into_iter().for_each(|tokens| lists.whole(&BASE, of_few(heads, tokens)));
            lists.repeats(of_few(heads, 1025));
        }
        lists.batches((16, 48), &[1, 33, 0, 64, 130]);
    }
    if lists.scale == Scale::Long {
        [20_468, 32_768].into_iter().for_each(|tokens| lists.whole(&BASE, main(tokens)));
        lists.stress(main(32_768));
    }

    lists.bits("split", few(289), bits::split);
    lists.bits("kept", few(40), bits::kept);
    lists.bits("k13_handover", few(66), bits::handover);
    lists.padding(if small { (1, 1) } else { (16, 48) });
    lists.batches(if small { (1, 1) } else { (2, 6) }, &[1, 33, 0, 64, 130]);
    if thorough {
        const MANY: &[usize] = &[40; 66];
        lists.bits("split", few(515), bits::split);
        lists.batches((1, 1), MANY);
    }
    lists.works
}
